"""Recurrent layers that ONNX Runtime's ``quantize_dynamic`` quantised agree with it, and their weights stay integers."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, save
from tests.transform.nets import calls, input_dtypes, transformed
from tvmake.frontend.onnx.importer import FLOAT_LSTM

LENGTH, BATCH, INPUTS, HIDDEN = 4, 2, 5, 3

FORMS = {
    "one direction": ("forward", np.int8, False, {}),
    "backwards, unsigned weights": ("reverse", np.uint8, False, {}),
    "both directions, a scale for each channel": ("bidirectional", np.int8, True, {}),
    "clipped gates": ("forward", np.uint8, False, {"clip": 0.5}),
}


def layer(direction: str, kind: type, is_per_channel: bool, length: int | str = LENGTH, **values):
    draw, directions = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    limits = np.iinfo(kind)
    parameters = (directions, 4 * HIDDEN) if is_per_channel else (directions,)
    constants: dict[str, np.ndarray] = {}
    for name, extent in (("w", INPUTS), ("r", HIDDEN)):
        shape = (directions, extent, 4 * HIDDEN)
        constants[name] = draw.integers(limits.min, limits.max + 1, shape).astype(kind)
        constants[f"{name}_scale"] = draw.uniform(0.003, 0.01, parameters).astype(np.float32)
        zero = 0 if is_per_channel else (limits.min + limits.max) // 2 + 9
        constants[f"{name}_zero"] = np.full(parameters, zero, kind)
    constants["b"] = random(directions, 8 * HIDDEN)
    names = ["x", "w", "r", "b", "", "h", "c", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    values |= {"hidden_size": HIDDEN, "direction": direction}
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "y_h", "y_c"], domain="com.microsoft", **values)
    shapes = {"x": (LENGTH, BATCH, INPUTS), **dict.fromkeys("hc", (directions, BATCH, HIDDEN))}
    proto = model(
        [node],
        {name: (FLOAT, [length, *shape[1:]] if name == "x" else shape) for name, shape in shapes.items()},
        ["y", "y_h", "y_c"],
        constants,
        domains=["com.microsoft"],
    )
    return proto, [random(*shape, seed=seed) for seed, shape in enumerate(shapes.values())]


def run_on_one_thread(proto: onnx.ModelProto, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Results of ONNX Runtime on one thread; with several, each thread rounds its rows of a state by their own range."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip("xhc", inputs, strict=True)))


@pytest.mark.parametrize(("direction", "kind", "is_per_channel", "values"), FORMS.values(), ids=FORMS)
def test_an_lstm_with_rounded_weights_agrees_with_onnx_runtime(tmp_path, direction, kind, is_per_channel, values):
    proto, inputs = layer(direction, kind, is_per_channel, **values)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), inputs)
    for output, expected in zip(result, run_on_one_thread(proto, inputs), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


def test_its_matmuls_are_computed_in_integers(tmp_path):
    proto, _ = layer("forward", np.int8, False)
    result = transformed(read(save(tmp_path / "m.onnx", proto)))
    products = calls(result[0], "matmul")
    assert len(products) == 1 + LENGTH
    assert all(set(input_dtypes(call)) <= {"int8", "uint8"} for call in products)


@pytest.mark.parametrize("is_per_channel", [False, True])
def test_over_a_dynamic_length_its_weights_are_dequantised(tmp_path, is_per_channel):
    """ONNX Runtime also rounds inputs and states to 8 bits, hence the tolerance."""
    proto, inputs = layer("bidirectional", np.int8, is_per_channel, length="T")
    imported = read(save(tmp_path / "m.onnx", proto))
    for output, expected in zip(run_compiled(imported, inputs), run_on_one_thread(proto, inputs), strict=True):
        np.testing.assert_allclose(output, expected, atol=0.02)
    assert imported.notes["slow"] == [FLOAT_LSTM]
