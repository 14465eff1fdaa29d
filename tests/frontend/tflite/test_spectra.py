"""Spectra and complex tensors agree with LiteRT."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import KIND, OP, Builder, reshape_options, schema
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import read


def litert(content: bytes, signal: np.ndarray) -> list[np.ndarray]:
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], signal)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def spectrum(
    builder: Builder, frames: int, shape: list[int], lengths: tuple[int, int], declared: list[int] | None
) -> tuple[int, int]:
    """Frames of a signal and their spectrum; ``declared`` is the shape in the file, which may be a placeholder."""
    signal = builder.tensor("signal", [1, frames, *shape])
    length = builder.tensor("lengths", [2], "int32", np.array(lengths, "int32"))
    bins = declared or [1, frames, lengths[0], lengths[1] // 2 + 1]
    result = builder.tensor("spectrum", bins, "complex64")
    builder.call(OP.RFFT2D, [signal, length], result, schema.Rfft2dOptionsT(), KIND.Rfft2dOptions)
    return signal, result


def features(shape: list[int], lengths: tuple[int, int], declared: list[int] | None = None) -> bytes:
    """Absolute values, real and imaginary parts, and squares of spectra without the axis of rows."""
    b = Builder()
    signal, result = spectrum(b, 3, shape, lengths, declared)
    size = lengths[0] * (lengths[1] // 2 + 1)
    flat = b.tensor("flat", [3, size], "complex64")
    b.call(
        OP.RESHAPE,
        [result, b.tensor("s", [2], "int32", np.array([3, size], "int32"))],
        flat,
        reshape_options([3, size]),
        KIND.ReshapeOptions,
    )
    real = b.call(OP.CAST, [flat], b.tensor("real", [3, size]))
    absolute = b.call(OP.COMPLEX_ABS, [flat], b.tensor("absolute", [3, size]))
    imaginary = b.call(OP.IMAG, [flat], b.tensor("imaginary", [3, size]))
    return b.finish([signal], [real, absolute, imaginary])


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [([1, 16], (1, 16)), ([1, 12], (1, 16)), ([1, 20], (1, 16)), ([4, 6], (4, 4)), ([2, 8], (4, 8))],
    ids=["frames", "padded", "cropped", "images", "padded rows"],
)
def test_parts_of_spectra_agree_with_litert(tmp_path: Path, shape: list[int], lengths: tuple[int, int]):
    content = features(shape, lengths)
    (tmp_path / "m.tflite").write_bytes(content)
    signal = np.random.default_rng(0).standard_normal([1, 3, *shape]).astype("float32")
    model = read(tmp_path / "m.tflite", ImportOptions(source=str(tmp_path / "m.tflite")))
    for found, wanted in zip(run_compiled(model, [signal]), litert(content, signal), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_shapes_of_spectra_are_those_of_the_signal_and_not_of_the_file(tmp_path: Path):
    content = features([1, 16], (1, 16), declared=[1, 1, 1, 1])
    (tmp_path / "m.tflite").write_bytes(content)
    model = read(tmp_path / "m.tflite", ImportOptions(source=str(tmp_path / "m.tflite")))
    assert [spec.shape for spec in model.signature.outputs] == [(3, 9)] * 3


def test_other_operators_of_complex_numbers_are_refused(tmp_path: Path):
    b = Builder()
    signal, result = spectrum(b, 2, [1, 8], (1, 8), None)
    squared = b.call(OP.SQUARE, [result], b.tensor("squared", [1, 2, 1, 5], "complex64"))
    absolute = b.call(OP.COMPLEX_ABS, [squared], b.tensor("y", [1, 2, 1, 5]))
    (tmp_path / "m.tflite").write_bytes(b.finish([signal], [absolute]))
    with pytest.raises(InputError, match="SQUARE of complex numbers"):
        read(tmp_path / "m.tflite", ImportOptions(source=str(tmp_path / "m.tflite")))
