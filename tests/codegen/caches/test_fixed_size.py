"""States of fixed size, such as static caches: rows are written into them in place, if nothing else can see it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import tvmake
from tests.requirements import need

pytestmark = pytest.mark.usefixtures("own_home")

CAPACITY, WIDTH = 24, 16
SHAPE = [1, 2, CAPACITY, WIDTH]

FORMS = {
    "elements": [("Expand", ["p4", "shape"], "at"), ("ScatterElements", ["cache", "at", "new"], "next", {"axis": 2})],
    "rows": [
        ("Transpose", ["cache"], "rows", {"perm": [2, 0, 1, 3]}),
        ("Transpose", ["new"], "new_rows", {"perm": [2, 0, 1, 3]}),
        ("Reshape", ["position", "column"], "at"),
        ("ScatterND", ["rows", "at", "new_rows"], "scattered"),
        ("Transpose", ["scattered"], "next", {"perm": [1, 2, 0, 3]}),
    ],
}

READ_BEFORE = [
    *FORMS["elements"],
    ("Sub", ["next", "cache"], "change"),
    ("ReduceSum", ["change"], "y", {"keepdims": 0}),
]
FROM_ITSELF = [
    ("Add", ["new", "first"], "sums"),
    ("Slice", ["cache", "zero", "one", "two"], "first"),
    ("Expand", ["p4", "shape"], "at"),
    ("ScatterElements", ["cache", "at", "sums"], "next", {"axis": 2}),
]
TWICE = [
    ("Expand", ["p4", "shape"], "at"),
    ("ScatterElements", ["cache", "at", "new"], "between", {"axis": 2}),
    ("Add", ["between", "half"], "next"),
]

ATTENTION = [
    ("Transpose", ["next"], "columns", {"perm": [0, 1, 3, 2]}),
    ("MatMul", ["new", "columns"], "scores"),
    ("Softmax", ["scores"], "weights", {"axis": -1}),
    ("MatMul", ["weights", "next"], "y"),
]


def save(file: Path, nodes: list[tuple]) -> Path:
    """A network that writes ``new`` into its cache at ``position``, and attends to all of the cache."""
    constants = {
        "shape": np.array([1, 2, 1, WIDTH]), "four": np.array([1, 1, 1, 1]), "column": np.array([1, 1]), "zero": np.array([0]),
        "one": np.array([1]), "two": np.array([2]), "half": np.array(0.5, "float32"),
    }  # fmt: skip
    nodes = [("Reshape", ["position", "four"], "p4"), *nodes]
    if all(output != "y" for _, _, output, *_ in nodes):
        nodes += ATTENTION
    ordered = sorted(nodes, key=lambda node: node[0] != "Slice")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node(kind, given, [output], **(rest[0] if rest else {}))
            for kind, given, output, *rest in ordered
        ],
        "cache",
        [
            value("new", TensorProto.FLOAT, [1, 2, 1, WIDTH]),
            value("position", TensorProto.INT64, [1]),
            value("cache", TensorProto.FLOAT, SHAPE),
        ],
        [value("y", TensorProto.FLOAT, None), value("next", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def steps(count: int = 6) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    positions = [0, 1, 2, 2, -1, 7]
    return [
        {"new": random.standard_normal((1, 2, 1, WIDTH), "float32"), "position": np.array([position])}
        for position in positions[:count]
    ]


def source(file: Path) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    cache, outputs = np.zeros(SHAPE, "float32"), []
    for inputs in steps():
        y, cache = session.run(None, {**inputs, "cache": cache})
        outputs.append(y)
    return outputs


def kernels(package: tvmake.Package) -> str:
    return " ".join(kernel.name for kernel in package.manifest.kernels)


def compare(file: Path, target: str = "native") -> tvmake.Package:
    package = tvmake.load(file, state={"cache": "next"}).compile(target, shows_progress=False)
    for _ in range(2):
        for inputs, expected in zip(steps(), source(file), strict=True):
            np.testing.assert_allclose(package.run(inputs)["y"], expected, atol=1e-4)
        package.reset()
    return package


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_written_in_place_and_read_from_the_buffer(form: str, tmp_path: Path):
    names = kernels(compare(save(tmp_path / "cache.onnx", FORMS[form])))
    assert "scatter_rows" in names
    assert "cache_matmul" in names
    assert not any(copy in names for copy in ("scatter_elements", "scatter_nd", "cache_rows"))


@pytest.mark.parametrize(
    "nodes", [READ_BEFORE, FROM_ITSELF, TWICE], ids=["read before", "from itself", "changed behind"]
)
def test_a_state_that_something_else_reads_is_copied(nodes: list, tmp_path: Path):
    assert "scatter_rows" not in kernels(compare(save(tmp_path / "cache.onnx", nodes)))


def test_snapshots_do_not_change_with_the_buffer(tmp_path: Path):
    file = save(tmp_path / "cache.onnx", FORMS["elements"])
    package = tvmake.load(file, state={"cache": "next"}).compile(shows_progress=False)
    session = package.session()
    first, second, *_ = steps()
    session.run(first)
    saved = session.snapshot()
    expected = session.run(second)["y"].copy()
    session.run({**first, "position": np.array([5])})
    session.restore(saved)
    assert np.array_equal(session.run(second)["y"], expected)


def test_caches_are_right_on_an_opencl_device(tmp_path: Path):
    need("PoCL")
    assert "scatter_rows" in kernels(compare(save(tmp_path / "cache.onnx", FORMS["elements"]), "opencl-generic"))


class StaticAttention(nn.Module):
    """Attention over a buffer of full size, with a mask."""

    def __init__(self, write: Callable[[Tensor, Tensor, Tensor], None]):
        super().__init__()
        self.write = write
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(SHAPE), persistent=False)

    def forward(self, new: Tensor, position: Tensor) -> Tensor:
        """Attention of the new row to all rows so far."""
        self.write(self.keys, position, new)
        self.write(self.values, position, 2 * new)
        mask = (torch.arange(CAPACITY) <= position)[None, None, None]
        keys, values = self.keys.repeat_interleave(2, 1), self.values.repeat_interleave(2, 1)
        queries = new.repeat_interleave(2, 1)
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def copy_rows(cache: Tensor, position: Tensor, new: Tensor) -> None:
    cache.index_copy_(2, position, new)


def assign_rows(cache: Tensor, position: Tensor, new: Tensor) -> None:
    cache[:, :, position] = new


@pytest.mark.parametrize("write", [copy_rows, assign_rows])
def test_a_static_cache_of_pytorch_is_written_in_place(write: Callable[[Tensor, Tensor, Tensor], None]):
    module = StaticAttention(write).eval()
    inputs = [{**step, "position": np.array([number])} for number, step in enumerate(steps())]
    example = tuple(map(torch.tensor, inputs[0].values()))
    package = tvmake.load(torch.export.export(module, example)).compile(shows_progress=False)
    names = kernels(package)
    assert "scatter_rows" in names
    assert "cache_matmul" in names
    for step in inputs:
        expected = module(*map(torch.tensor, step.values())).numpy()
        (output,) = package.run(step).values()
        np.testing.assert_allclose(output, expected, atol=1e-5)
