"""Fourier transforms of signals with dynamic dimensions agree with ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, refusal, runtime, save

CONSTANTS = {"hop": np.array(5), "window": np.hanning(16).astype(np.float32), "length": np.array(16)}


@pytest.mark.parametrize(
    ("operands", "last"), [(["window", "length"], []), (["window"], [1]), (["", "length"], [1])], ids=str
)
def test_frames_of_a_signal_of_dynamic_length(tmp_path, operands, last):
    """As in the preprocessors of Whisper and NeMo."""
    stft = helper.make_node("STFT", ["x", "hop", *operands], ["y"])
    proto = model([stft], {"x": (FLOAT, ["batch", "t", *last])}, ["y"], CONSTANTS)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert imported.signature.outputs[0].shape == ("batch", "(t - 16) // 5 + 1", 9, 2)
    for length in (16, 33):
        x = random(2, length, *last)
        np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(proto, [x])[0], atol=1e-5)


def test_a_signal_of_complex_numbers_needs_a_fixed_length(tmp_path):
    stft = helper.make_node("STFT", ["x", "hop", "window", "length"], ["y"], onesided=0)
    path = save(tmp_path / "m.onnx", model([stft], {"x": (FLOAT, ["batch", "t", 2])}, ["y"], CONSTANTS))
    assert "STFT" in str(refusal(path))
    fixed = read(path, inputs={"x": {"shape": [2, 21, 2]}})
    x = random(2, 21, 2)
    expected = runtime(model([stft], {"x": (FLOAT, [2, 21, 2])}, ["y"], CONSTANTS), [x])
    np.testing.assert_allclose(run_compiled(fixed, [x])[0], expected[0], atol=1e-5)


def test_a_transform_over_a_dynamic_batch(tmp_path):
    dft = helper.make_node("DFT", ["x"], ["y"], axis=2, onesided=1)
    proto = model([dft], {"x": (FLOAT, ["batch", 3, 12, 1])}, ["y"], opset=18)
    x = random(2, 3, 12, 1)
    output = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0]
    np.testing.assert_allclose(output, runtime(proto, [x])[0], atol=1e-5)
