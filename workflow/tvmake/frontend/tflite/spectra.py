"""Convert spectra of real signals, and the operators that reshape complex tensors.

TVM's importer represents a complex tensor as a real one with a last axis of two parts, which its converters of other operators
do not know; its transforms use shapes of the file, which are placeholders if the network computes them. Here the two parts are
separate tensors, each the product of the signal and a matrix. Repair: `tflite-complex-tensors`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from tvmake.frontend.lowering.fourier import MAX_LENGTH, fourier_matrix
from tvmake.frontend.tflite.single_steps import SingleStepConverter

from tvm import relax, tirx  # isort: skip
from tvm.error import OpNotImplemented  # isort: skip

COMPLEX = tflite.TensorType.COMPLEX64

Parts = tuple[Any, Any]
"""The real and the imaginary part of a complex tensor."""

SUPPORTED = frozenset({
    "RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", "CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SHAPE", "ADD", "SUB", "MUL",
})  # fmt: skip
"""Operators with complex operands or results that can be converted; so can StableHLO's, by TVM's importer."""


class SpectrumConverter(SingleStepConverter):
    """TVM's converter with complex tensors as two parts."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.parts: dict[int, Parts] = {}
        """Parts of complex tensors, by the tensors' indices."""

    def _convert_on_floats(self, name: str, convert: Callable[..., Any], op: Any) -> Any:
        tensors = [*self.get_input_tensors(op), *self.get_output_tensors(op)]
        is_complex = any(tensor.tensor_idx >= 0 and tensor.tensor.Type() == COMPLEX for tensor in tensors)
        if not is_complex or name.startswith("STABLEHLO_"):
            return super()._convert_on_floats(name, convert, op)
        if name not in SUPPORTED:
            raise OpNotImplemented(f"{name} of complex numbers")
        if name == "SHAPE":
            return super()._convert_on_floats(name, convert, op)
        parts = _CONVERTERS[name](self, op) if name in _CONVERTERS else self._convert_parts(name, op)
        if not isinstance(parts, tuple):
            return parts
        (index,) = op.OutputsAsNumpy().tolist()
        self.parts[index] = self.bb.emit(parts[0]), self.bb.emit(parts[1])
        return relax.op.stack(list(self.parts[index]), axis=-1)

    def _complex_parts(self, tensor: Any) -> Parts:
        if tensor.tensor_idx not in self.parts:  # a constant, or a result of TVM's own converters
            pair = self.bb.emit(self.get_tensor_expr(tensor))
            halves = (relax.op.take(pair, relax.const(part, "int64"), axis=-1) for part in range(2))
            self.parts[tensor.tensor_idx] = tuple(map(self.bb.emit, halves))
        return self.parts[tensor.tensor_idx]

    def _extents(self, tensor: Any) -> np.ndarray | None:
        extents = super()._extents(tensor)
        return extents[:-1] if extents is not None and tensor.tensor.Type() == COMPLEX else extents

    def _convert_parts(self, name: str, op: Any) -> Parts:
        """An operator that moves elements, on each part."""
        data, *others = self.get_input_tensors(op)
        parts = self._complex_parts(data)
        if name == "SQUEEZE":
            options = tflite.SqueezeOptions()
            options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
            axes = [options.SqueezeDims(number) for number in range(options.SqueezeDimsLength())] or None
            return relax.op.squeeze(parts[0], axes), relax.op.squeeze(parts[1], axes)
        values = self._constant(others[0]) if others else None
        if values is None:
            raise OpNotImplemented(f"{name} of complex numbers with operands that depend on the data")
        numbers = [int(value) for value in np.ravel(values)]
        function = {
            "RESHAPE": relax.op.reshape,
            "EXPAND_DIMS": relax.op.expand_dims,
            "TRANSPOSE": relax.op.permute_dims,
        }
        return function[name](parts[0], numbers), function[name](parts[1], numbers)


def _spectrum(converter: SpectrumConverter, op: Any) -> Parts:
    """The half spectrum along the last axis, then the whole one along the axis before it; signals are padded with zeros or cropped."""
    data, lengths = converter.get_input_tensors(op)
    known = converter._constant(lengths)
    signal = converter.bb.emit(converter.get_tensor_expr(data))
    shape = signal.ty.shape
    if known is None or shape is None or not all(isinstance(extent, tirx.IntImm) for extent in shape):
        raise OpNotImplemented("RFFT2D of a length that depends on the data")
    rows, columns = (int(length) for length in np.ravel(known))
    if max(rows, columns) > MAX_LENGTH:
        raise OpNotImplemented(f"RFFT2D of more than {MAX_LENGTH} elements")
    signal = _resize(converter, signal, -1, columns)
    signal = _resize(converter, signal, -2, rows)
    cosine, sine = (matrix.astype("float32") for matrix in fourier_matrix(columns, columns // 2 + 1))
    real = converter.bb.emit(relax.op.matmul(signal, relax.const(cosine)))
    imaginary = converter.bb.emit(relax.op.matmul(signal, relax.const(-sine)))
    if rows == 1:
        return real, imaginary
    down, across = (relax.const(matrix.astype("float32")) for matrix in fourier_matrix(rows, rows))  # both symmetric
    return (
        relax.op.add(relax.op.matmul(down, real), relax.op.matmul(across, imaginary)),
        relax.op.subtract(relax.op.matmul(down, imaginary), relax.op.matmul(across, real)),
    )


def _resize(converter: SpectrumConverter, signal: Any, axis: int, length: int) -> Any:
    rank = len(signal.ty.shape)
    extent = int(signal.ty.shape[rank + axis])
    if extent == length:
        return signal
    if extent > length:
        return converter.bb.emit(relax.op.strided_slice(signal, [rank + axis], [0], [length]))
    widths = [0] * (2 * rank)
    widths[2 * (rank + axis) + 1] = length - extent
    return converter.bb.emit(relax.op.nn.pad(signal, widths, "constant", 0.0))


def _real(converter: SpectrumConverter, op: Any) -> Any:
    return _operands(converter, op)[0][0]


def _imaginary(converter: SpectrumConverter, op: Any) -> Any:
    return _operands(converter, op)[0][1]


def _absolute(converter: SpectrumConverter, op: Any) -> Any:
    real, imaginary = _operands(converter, op)[0]
    return relax.op.sqrt(relax.op.add(relax.op.multiply(real, real), relax.op.multiply(imaginary, imaginary)))


def _cast(converter: SpectrumConverter, op: Any) -> Any:
    """The real part as another type; a real tensor as a complex one."""
    (data,), (result,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    if data.tensor.Type() == COMPLEX:
        real, imaginary = converter._complex_parts(data)
        kind = result.tensor.Type()
        return (real, imaginary) if kind == COMPLEX else relax.op.astype(real, converter.get_tensor_type_str(kind))
    real = converter.bb.emit(relax.op.astype(converter.get_tensor_expr(data), "float32"))
    return real, relax.op.zeros_like(real)


def _add(converter: SpectrumConverter, op: Any) -> Parts:
    (a, b), (c, d) = _operands(converter, op)
    return relax.op.add(a, c), relax.op.add(b, d)


def _subtract(converter: SpectrumConverter, op: Any) -> Parts:
    (a, b), (c, d) = _operands(converter, op)
    return relax.op.subtract(a, c), relax.op.subtract(b, d)


def _multiply(converter: SpectrumConverter, op: Any) -> Parts:
    (a, b), (c, d) = _operands(converter, op)
    multiply = relax.op.multiply
    return relax.op.subtract(multiply(a, c), multiply(b, d)), relax.op.add(multiply(a, d), multiply(b, c))


def _operands(converter: SpectrumConverter, op: Any) -> list[Parts]:
    return [converter._complex_parts(tensor) for tensor in converter.get_input_tensors(op)]


_CONVERTERS: dict[str, Callable[[SpectrumConverter, Any], Any]] = {
    "RFFT2D": _spectrum, "REAL": _real, "IMAG": _imaginary, "COMPLEX_ABS": _absolute, "CAST": _cast,
    "ADD": _add, "SUB": _subtract, "MUL": _multiply,
}  # fmt: skip
