"""Weights that a stage does not change are on the disk once."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.storage.test_files import can_clone
from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module
from tvmake.artifact.package import unpack
from tvmake.artifact.weights.packings import WeightPackings
from tvmake.artifact.weights.tensors import load_params, save_params
from tvmake.config.requests.building import BuildRequest, ExportRequest
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.transform.options import TransformRequest

IMPORTED = ("model.json", "model.params", "signature.json")
TRANSFORMED = ("module.json", "module.params", "bound.json")

WEIGHTS = {f"w{number}": np.random.default_rng(number).random((64, 64), "float32") for number in range(3)}


def write_network(path: Path, transposed: bool) -> None:
    """Three matmuls and a bias of a few bytes; the second one's weights are transposed on request."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Gemm", ["a", "w1"], ["b"], transB=int(transposed)),
        helper.make_node("MatMul", ["b", "w2"], ["c"]),
        helper.make_node("Add", ["c", "bias"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    tensors.insert(1, numpy_helper.from_array(np.ones(1, "float32"), "bias"))
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 64]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [inputs], [outputs], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def transform(directory: Path, transposed: bool = False) -> tuple[Path, Path]:
    """The parameters before and after."""
    write_network(directory / "net.onnx", transposed)
    before, after = ([directory / name for name in names] for names in (IMPORTED, TRANSFORMED))
    import_model(ImportOptions(source=str(directory / "net.onnx")), *before, directory / "source.json")
    transform_model(*before, TransformRequest(), *after)
    return before[1], after[1]


def is_one_file(one: Path, other: Path) -> bool:
    return can_clone(one.parent) or one.stat().st_ino == other.stat().st_ino


def test_unchanged_weights_are_linked_and_keep_their_names(tmp_path: Path):
    before, after = transform(tmp_path)
    assert is_one_file(before, after)
    parameters = [str(var.name) for var in load_module(tmp_path / "module.json")["main"].params]
    assert parameters == ["x", "w0", "w1", "w2"]
    for name, value in load_params(after).items():
        np.testing.assert_array_equal(value.numpy(), WEIGHTS.get(name, np.ones(1, "float32")))


def test_changed_weights_are_written(tmp_path: Path):
    before, after = transform(tmp_path, transposed=True)
    assert before.read_bytes() != after.read_bytes()
    written = {name: value.numpy() for name, value in load_params(after).items()}
    assert list(written) == ["w0", "param_1", "w2"]
    np.testing.assert_array_equal(written["param_1"], WEIGHTS["w1"].T)


def test_results_have_the_same_bytes_without_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    linked = tmp_path / "linked", tmp_path / "copied"
    contents = []
    for directory in linked:
        directory.mkdir()
        monkeypatch.chdir(directory)
        write_network(Path("net.onnx"), transposed=False)
        before, after = ([Path(name) for name in names] for names in (IMPORTED, TRANSFORMED))
        import_model(ImportOptions(source="net.onnx"), *before, Path("source.json"))
        if directory.name == "copied":
            before[1].chmod(0o600)
        transform_model(*before, TransformRequest(), *after)
        contents.append([file.read_bytes() for file in after])
    assert before[1].stat().st_ino != after[1].stat().st_ino
    assert contents[0] == contents[1]


CPU = {"kind": "llvm", "mcpu": "haswell"}


@pytest.mark.parametrize(("target", "packed"), [({"kind": "opencl"}, 0), (CPU, 3)])
def test_a_build_writes_no_weights_and_the_export_packs_them(tmp_path: Path, target: dict[str, str], packed: int):
    _, params = transform(tmp_path)
    built = tmp_path / "built"
    request = BuildRequest(model="net", precision="float32", target_name="t", target=target)
    written = [built / name for name in ("mod.so", "mod.json", "packing.json")]
    build(tmp_path / "module.json", params, tmp_path / "bound.json", request, *written, built / "sources")
    assert len(stage_json.load(WeightPackings, written[2]).runs) == packed
    assert not list(built.glob("*.params"))
    export(*written, params, ExportRequest(), tmp_path / "package.tar")
    (tmp_path / "unpacked").mkdir()
    manifest = unpack(tmp_path / "package.tar", tmp_path / "unpacked")
    weights = load_params(tmp_path / "unpacked" / "mod.params")
    assert set(weights) >= {parameter.name for parameter in manifest.parameters}
    for parameter in manifest.parameters:
        source = WEIGHTS[parameter.name.partition("_packed")[0]]
        np.testing.assert_array_equal(np.sort(weights[parameter.name].numpy().ravel()), np.sort(source.ravel()))


def test_weights_that_differ_from_those_of_the_build_are_not_packed(tmp_path: Path):
    _, params = transform(tmp_path)
    request = BuildRequest(model="net", precision="float32", target_name="t", target=CPU)
    written = [tmp_path / name for name in ("mod.so", "mod.json", "packing.json")]
    build(tmp_path / "module.json", params, tmp_path / "bound.json", request, *written, tmp_path / "sources")
    others = {name: value.numpy() + 1 for name, value in load_params(params).items()}
    save_params(others, params)
    with pytest.raises(InputError, match=r"mod\.params is altered: its sha256 differs from mod\.json's"):
        export(*written, params, ExportRequest(), tmp_path / "package.tar")
    assert not (tmp_path / "package.tar").exists()
