"""External data that stay in their file until they are written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.artifact.weights.memory import MB, growth_mb
from tvmake.artifact import stage_json
from tvmake.artifact.signature import Signature
from tvmake.artifact.weights.file_format import ALIGNMENT
from tvmake.errors import InputError
from tvmake.frontend.onnx.external import LARGE_BYTES
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
from tvmake.validate.reference.onnx_model import open_model

NAMES = ("model.json", "model.params", "signature.json", "source.json")

SIDE = 1024
"""A matrix of this size has 4 MiB."""


def write_chain(path: Path, count: int, kind: int = TensorProto.FLOAT, ir_version: int = 10) -> None:
    """Matmuls with large weights, and sums with small ones; the data are embedded."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    random, nodes, tensors, value = np.random.default_rng(0), [], [], "x"
    for number in range(count):
        nodes.append(helper.make_node("MatMul", [value, f"w{number}"], [f"m{number}"]))
        nodes.append(helper.make_node("Add", [f"m{number}", f"b{number}"], [f"y{number}"]))
        weights = (random.random((SIDE, SIDE)) / SIDE).astype(dtype)
        tensors += [
            numpy_helper.from_array(weights, f"w{number}"),
            numpy_helper.from_array(np.full(3, number, dtype), f"unused{number}"),
            numpy_helper.from_array(np.full(SIDE, number, dtype), f"b{number}"),
        ]
        value = f"y{number}"
    ends = [helper.make_tensor_value_info(name, kind, [1, SIDE]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version), path)


def save_externally(path: Path, alignment: int | None = None) -> None:
    """Move a model's data to a file beside it, at multiples of ``alignment``, or one after the other."""
    model = onnx.load(path)
    with path.with_suffix(".data").open("wb") as file:
        for tensor in model.graph.initializer:
            if alignment:
                file.write(bytes(-file.tell() % alignment))
            onnx.external_data_helper.set_external_data(
                tensor, path.with_suffix(".data").name, offset=file.tell(), length=len(tensor.raw_data)
            )
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    onnx.save(model, path)


def imported(directory: Path) -> list[bytes]:
    files = [directory / name for name in NAMES]
    import_model(ImportOptions(source=str(directory / "net.onnx")), *files)
    return [file.read_bytes() for file in files[:3]]


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("alignment", [None, ALIGNMENT])
def test_a_model_with_external_data_is_imported_as_one_without(tmp_path: Path, kind: int, alignment: int | None):
    assert SIDE * SIDE * 2 > LARGE_BYTES
    write_chain(tmp_path / "net.onnx", 2, kind)
    embedded = imported(tmp_path)
    save_externally(tmp_path / "net.onnx", alignment)
    assert imported(tmp_path) == embedded


@pytest.mark.parametrize("damage", ["cut", "another shape", "another type", "no data"])
def test_a_damaged_model_is_refused_as_by_the_onnx_package(tmp_path: Path, damage: str):
    write_chain(tmp_path / "net.onnx", 1)
    model = onnx.load(tmp_path / "net.onnx")
    weights = model.graph.initializer[0]
    match damage:
        case "another shape":
            weights.dims[0] += 1
        case "another type":
            weights.data_type = TensorProto.DOUBLE
        case "no data":
            weights.ClearField("raw_data")
    content = model.SerializeToString()
    (tmp_path / "net.onnx").write_bytes(content[: SIDE * SIDE] if damage == "cut" else content)
    with pytest.raises(InputError) as caught:
        imported(tmp_path)
    assert "ONNX model" in caught.value.problem


SETUP = """
from pathlib import Path
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
directory = Path({directory!r})
files = [directory / name for name in {names!r}]
import_model(ImportOptions(source=str(directory / "small.onnx")), *files)
"""

COUNT = 64


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a network of 256 MiB, and a small one of the same operators."""
    directory = tmp_path_factory.mktemp("large")
    write_chain(directory / "embedded.onnx", COUNT)
    write_chain(directory / "external.onnx", COUNT)
    save_externally(directory / "external.onnx", ALIGNMENT)
    write_chain(directory / "small.onnx", 1)
    return directory


@pytest.mark.parametrize(("name", "share"), [("external", 0.4), ("embedded", 1.3)])  # embedded data are not aligned
def test_an_import_holds_the_weights_once_at_most(large: Path, name: str, share: float):
    work = f'import_model(ImportOptions(source=str(directory / "{name}.onnx")), *files)'
    grown = growth_mb(SETUP.format(directory=str(large), names=NAMES), work)
    assert grown < COUNT * SIDE * SIDE * 4 / MB * share


@pytest.mark.parametrize("ir_version", [10, onnx.IR_VERSION])  # ONNX Runtime refuses the newest
def test_a_model_with_external_data_has_the_same_reference(tmp_path: Path, ir_version: int):
    write_chain(tmp_path / "net.onnx", 4, ir_version=ir_version)
    imported(tmp_path)
    options, known = ImportOptions(source=str(tmp_path / "net.onnx")), stage_json.load(Signature, tmp_path / NAMES[2])
    sample = {"x": np.random.default_rng(1).random((1, SIDE), "float32")}
    expected = open_model(options.source, options, known).run(sample)
    save_externally(tmp_path / "net.onnx")
    runtime = open_model(options.source, options, known)
    for name, value in runtime.run(sample).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5)
