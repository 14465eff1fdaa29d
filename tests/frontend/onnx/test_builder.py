"""Clips and paddings of ONNX files are imported as operators that graph rewrites match."""

import math

import numpy as np
import pytest
import tvm
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save
from tests.transform.nets import calls, input_dtypes
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.precision import to_precision

node = helper.make_node
PADS = np.array([0, 0, 1, 2, 0, 0, 0, 1])


def bounds(low: float | None, high: float | None) -> dict[str, np.ndarray]:
    given = {"low": low, "high": high}
    return {name: np.array(value, "float32") for name, value in given.items() if value is not None}


def between_convolutions(middle, constants, opset=19):
    """A node between two convolutions."""
    weights = {"w": random(4, 3, 3, 3), "v": random(4, 4, 3, 3, seed=1)}
    nodes = [node("Conv", ["x", "w"], ["a"]), middle, node("Conv", ["b", "v"], ["y"])]
    return model(nodes, {"x": (FLOAT, [1, 3, 8, 8])}, ["y"], {**weights, **constants}, opset=opset)


def clip(low: float | None, high: float | None):
    constants = bounds(low, high)
    names = [name if name in constants else "" for name in ("low", "high")]
    return between_convolutions(node("Clip", ["a", *names], ["b"]), constants)


def pad(mode: str, value: float | None = None):
    constants = {"pads": PADS, **({} if value is None else {"value": np.array(value, "float32")})}
    return between_convolutions(node("Pad", ["a", *constants], ["b"], mode=mode), constants)


NETWORKS = {
    "ReLU6": clip(0, 6),
    "a lower bound": clip(-0.5, None),
    "an upper bound": clip(None, 0.5),
    "a NaN bound": clip(math.nan, 0.5),
    "bounds that cross": clip(1, -1),
    "zeros around": pad("constant"),
    "numbers around": pad("constant", 0.5),
    "mirrored": pad("reflect"),
    "repeated": pad("edge"),
    "from the other side": pad("wrap"),
}


def kernels(module: "tvm.IRModule") -> list[str]:
    """Names of kernels that the importer has emitted."""
    return [name.name_hint for name in module.get_global_vars() if isinstance(module[name], tvm.tirx.PrimFunc)]


@pytest.mark.parametrize("name", NETWORKS)
def test_results_agree_with_onnx_runtime(name: str, tmp_path):
    imported, x = read(save(tmp_path / "m.onnx", NETWORKS[name])), random(1, 3, 8, 8, seed=2)
    assert not kernels(imported.module)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(NETWORKS[name], [x])[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_both_convolutions_are_computed_in_half_precision(name: str, tmp_path):
    imported = read(save(tmp_path / "m.onnx", NETWORKS[name]))
    proto = to_precision(imported.module, PrecisionConfig(base="float16"))
    assert [tuple(input_dtypes(call)) for call in calls(proto, "nn.conv2d")] == [("float16", "float16")] * 2


@pytest.mark.parametrize("name", ["ReLU6", "of an old operator set"])
def test_a_clip_is_one_operator(name: str, tmp_path):
    old = between_convolutions(node("Clip", ["a"], ["b"], min=0.0, max=6.0), {}, opset=6)
    imported = read(save(tmp_path / "m.onnx", NETWORKS.get(name, old)))
    assert [list(map(float, call.args[1:])) for call in calls(imported.module, "clip")] == [[0, 6]]


def test_an_extent_is_clipped(tmp_path):
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Clip", ["n", "zero", "five"], ["c"]),
    ]
    proto = model(
        [*nodes, node("Range", ["zero", "c", "one"], ["y"])],
        {"x": (FLOAT, ["N", 3])},
        ["y"],
        {"zero": np.array(0), "one": np.array(1), "five": np.array(5)},
    )
    imported, x = read(save(tmp_path / "m.onnx", proto)), random(7, 3)
    np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])


def test_a_negative_padding_still_crops(tmp_path):
    proto = between_convolutions(node("Pad", ["a", "pads"], ["b"]), {"pads": np.array([0, 0, -1, 0, 0, 0, 0, -1])})
    imported, x = read(save(tmp_path / "m.onnx", proto)), random(1, 3, 8, 8, seed=2)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-4)


def test_integers_are_padded_by_integers(tmp_path):
    proto = model(
        [node("Pad", ["x", "pads", "value"], ["y"])],
        {"x": (INT64, [2, 2])},
        ["y"],
        {"pads": np.array([0, 1, 0, 0]), "value": np.array(2**60 + 1)},
    )
    imported, x = read(save(tmp_path / "m.onnx", proto)), np.arange(4).reshape(2, 2)
    np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])
