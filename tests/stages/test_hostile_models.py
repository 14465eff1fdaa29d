"""Hostile models: the import stage refuses each with a one-line reason, quickly and in little memory."""

import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.workflow import preloaded

ROOT = Path(__file__).resolve().parents[2]

MEMORY_KB = 1_000_000


def refused(source: Path) -> str:
    """The line with which a model is refused."""
    outputs = [word for name in ("module", "params", "signature", "source") for word in (f"--{name}", f"{name}.out")]
    command = ["step", "import", "--options", json.dumps({"source": source.name}), *outputs]
    done = preloaded.run(command, source.parent, dict(os.environ), warm=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "defect" not in done.stderr
    usage = json.loads(done.stdout.splitlines()[-1])
    assert usage["peak_memory_mb"] * 1024 < MEMORY_KB
    assert usage["cpu_s"] < 40
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert not (source.parent / "module.out").exists()
    return line


def network(
    *nodes: onnx.NodeProto, functions: list[onnx.FunctionProto] | None = None, name: str = "y"
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])],
    )
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9, functions=functions or [])


def doubling() -> onnx.ModelProto:
    """Each function calls the previous one twice: 2^20 nodes of 20 functions."""
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "f0", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], sets)]
    for level in range(1, 21):
        calls = [
            helper.make_node(f"f{level - 1}", ["x"], ["t"], domain="own"),
            helper.make_node(f"f{level - 1}", ["t"], ["y"], domain="own"),
        ]
        functions.append(helper.make_function("own", f"f{level}", ["x"], ["y"], calls, sets))
    return network(helper.make_node("f20", ["x"], ["y"], domain="own"), functions=functions)


def endless() -> onnx.ModelProto:
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    itself = helper.make_node("f", ["x"], ["y"], domain="own")
    return network(itself, functions=[helper.make_function("own", "f", ["x"], ["y"], [itself], sets)])


def many_axes() -> onnx.ModelProto:
    model = network(helper.make_node("Neg", ["x"], ["y"]))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1] * 300))
    return model


def not_text() -> bytes:
    data = network(helper.make_node("Neg", ["x"], ["yyyy"]), name="yyyy").SerializeToString()
    return data.replace(b"yyyy", b"y\xff\xfey")


def data_before_the_file() -> onnx.ModelProto:
    model = network(helper.make_node("Add", ["x", "w"], ["y"]))
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "model.onnx.data"), ("offset", "-8"), ("length", "8")):
        weight.external_data.add(key=key, value=value)
    return model


ONNX: dict[str, tuple[Callable[[], onnx.ModelProto | bytes], str]] = {
    "functions that double": (doubling, "200000 nodes once its functions are expanded"),
    "a function that calls itself": (endless, "call each other more than"),
    "300 axes": (many_axes, "300 axes"),
    "a name of 100 kB": (lambda: network(helper.make_node("Neg", ["x"], ["y" * 100_000]), name="y" * 100_000), "a name of 100000 letters"),
    "names that are not text": (not_text, "not UTF-8"),
    "data before the file's beginning": (data_before_the_file, "the offset of 'w' in its data file is '-8'"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_an_onnx_file_that_cannot_be_handled_is_refused(tmp_path: Path, name: str):
    make, problem = ONNX[name]
    model = make()
    (tmp_path / "model.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    (tmp_path / "model.onnx.data").write_bytes(bytes(64))
    assert problem in refused(tmp_path / "model.onnx")


def rewritten(target: Path, change: Callable[[dict], None], member: str = "models/model.json") -> Path:
    """The demo's .pt2 with another description of its program, or of what ``member`` describes."""
    with (
        zipfile.ZipFile(ROOT / "resources" / "digits.pt2") as archive,
        zipfile.ZipFile(target, "w") as copy,
    ):
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(member):
                program = json.loads(content)
                change(program)
                content = json.dumps(program).encode()
            copy.writestr(name, content)
    return target


def an_extent(text: str) -> Callable[[dict], None]:
    def change(program: dict) -> None:
        values = program["graph_module"]["graph"]["tensor_values"]
        next(iter(values.values()))["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}

    return change


def a_guard(text: str) -> Callable[[dict], None]:
    return lambda program: program.update(guards_code=[text])


def a_call(name: str) -> Callable[[dict], None]:
    return lambda program: program["graph_module"]["graph"]["nodes"][0].update(target=name)


def a_number(program: dict) -> None:
    next(iter(program["graph_module"]["graph"]["tensor_values"].values()))["sizes"][0] = {"as_int": 10**30}


PT2 = {
    "a tower of powers": (an_extent("9**9**9**9"), "is not plain arithmetic"),
    "powers of powers": (an_extent("((((s0**16)**16)**16)**16)"), "is not plain arithmetic"),
    "a shift": (an_extent("1 << (1 << 60)"), "is not plain arithmetic"),
    "a long number as text": (an_extent("Float('1e999999999')"), "is not plain arithmetic"),
    "nesting": (an_extent("-" * 5000 + "1"), "is not plain arithmetic"),
    "a guard": (a_guard("9**9**9**9 == L['x'].size()[0]"), "is not a plain comparison"),
    "a factorial": (a_guard("math.factorial(10**9) == 1"), "is not a plain comparison"),
    "a call that writes files": (a_call("torch.ops.aten.save.default"), "it calls 'torch.ops.aten.save.default'"),
    "a number of 100 bits": (a_number, "more than 64 bits"),
}


MORE_ARITHMETIC = ("powers of powers", "a shift", "a long number as text")
"""Expressions that are refused as a tower of powers is."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in MORE_ARITHMETIC else name for name in PT2]
)
def test_a_pt2_file_that_would_take_for_ever_or_do_more_is_refused(tmp_path: Path, name: str):
    change, problem = PT2[name]
    assert problem in refused(rewritten(tmp_path / "model.pt2", change))


def test_a_weight_that_is_described_as_another_one_is_refused_without_what_pytorch_logs(tmp_path: Path):
    def narrower(described: dict) -> None:
        described["config"]["classifier.weight"]["tensor_meta"]["sizes"][1]["as_int"] -= 1

    model = rewritten(tmp_path / "model.pt2", narrower, "weights/model_weights_config.json")
    assert "must have same reduction dim" in refused(model)


def test_a_compressed_archive_is_refused_unread(tmp_path: Path):
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    megabyte = compressor.compress(bytes(1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", megabyte * 4096 + compressor.flush())
        (entry,) = archive.filelist
        entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, 4096 << 20
    assert "compressed or overlap" in refused(tmp_path / "model.pt2")


@pytest.mark.parametrize(
    "suffix", ["onnx", *(pytest.param(suffix, marks=pytest.mark.soak) for suffix in ("pt2", "tflite"))]
)
def test_a_pipe_instead_of_a_model_is_refused(tmp_path: Path, suffix: str):
    os.mkfifo(tmp_path / f"model.{suffix}")
    assert "it is a pipe" in refused(tmp_path / f"model.{suffix}")
