"""Which states are caches to which each run appends rows, and which only look so."""

import onnx
import pytest
import tvm

from tests.codegen.caches.decoders import DIMS, STATE, Decoder
from tvmake.artifact import stage_json
from tvmake.artifact.dims import DimBounds
from tvmake.artifact.module_files import load_module
from tvmake.artifact.signature import Signature
from tvmake.codegen.caches.in_place import CachedNetwork, write_caches_in_place
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.transform.options import TransformRequest

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3"}


def cached(directory, model: onnx.ModelProto, state: dict[str, str], **most: int) -> CachedNetwork:
    onnx.save(model, directory / "network.onnx")
    imported = [directory / name for name in ("model.json", "model.params", "signature.json", "source.json")]
    import_model(ImportOptions(source=str(directory / "network.onnx"), state=state), *imported)
    files = [directory / name for name in ("module.json", "module.params", "bound.json")]
    request = TransformRequest(dims={name: DimBounds(max=size) for name, size in most.items()})
    transform_model(*imported[:3], request, *files)
    signature = stage_json.load(Signature, files[2])
    return write_caches_in_place(load_module(files[0]), signature, tvm.target.Target(TARGET))


def network(nodes: str, total: str = "total") -> onnx.ModelProto:
    """A network with a cache ``s`` of rows ``x``."""
    return onnx.parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : 17]>
    network (float[1, t, 4] x, float[1, past, 4] s) => (float[1, n, 4] y, float[1, {total}, 4] s_next)
    <float two = {{2}}, int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] all = {{9223372036854775807}}> {{ {nodes} }}
    """)


def test_the_states_of_a_decoder_are_buffers_with_one_length(tmp_path):
    result = cached(tmp_path, Decoder().model(), STATE, past=31, t=8)
    assert not result.obstacles
    shapes = {state.name: state.shape for state in result.signature.states}
    assert shapes == dict.fromkeys(("k0", "k1", "v0", "v1"), (1, 2, 39, 16)) | {"length_of_k0": ("past",)}
    assert result.signature.bounds["past"] == (0, DIMS["past"]["max"])
    source = result.signature.model_copy(update={"states": result.signature.states[-1:]})
    assert source.of_source.inputs == source.inputs


def test_without_a_maximum_nothing_changes(tmp_path):
    result = cached(tmp_path, Decoder().model(), STATE)
    assert [state.shape[2] for state in result.signature.states] == ["past"] * 4
    assert not result.obstacles


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Identity(x)  s_next = Concat<axis = 1>(x, s)",
        "y = Identity(x)  double = Mul(s, two)  s_next = Concat<axis = 1>(double, x)",
        "y = Identity(x)  both = Concat<axis = 1>(s, x)  s_next = Mul(both, two)",
        "y = Identity(x)  both = Concat<axis = 1>(s, x)  s_next = Relu(both)",
    ],
)
def test_other_next_values_are_copied_with_the_reason(tmp_path, nodes: str):
    result = cached(tmp_path, network(nodes), {"s": "s_next"}, past=31)
    assert result.signature.states[0].shape == (1, "past", 4)
    assert list(result.obstacles) == ["s"]
