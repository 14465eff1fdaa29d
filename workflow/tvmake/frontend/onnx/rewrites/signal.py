"""Rewrite Fourier transforms to matmuls, and running sums and products to element-wise operators."""

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.lowering.fourier import MAX_LENGTH, fourier_matrix, half_spectrum_matrix
from tvmake.frontend.onnx.graph import Builder, attributes, optional_input


def dft_matrices(length: int, bins: int, inverse: bool, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary part of the discrete Fourier matrix [length, bins]; the inverse divides by the length."""
    cosine, sine = fourier_matrix(length, bins, 1 / length if inverse else 1.0)
    return cosine.astype(dtype), (sine if inverse else -sine).astype(dtype)


def _transform(build: Builder, real: str, imaginary: str, cosine: str, sine: str) -> tuple[str, str]:
    """(real + i·imaginary)·(cosine + i·sine); an empty imaginary name is 0."""
    first, second = build.op("MatMul", real, cosine), build.op("MatMul", real, sine)
    if imaginary:
        first = build.op("Sub", first, build.op("MatMul", imaginary, sine))
        second = build.op("Add", second, build.op("MatMul", imaginary, cosine))
    return first, second


def dft(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write a DFT of fixed length as a matmul with the transform axis last."""
    graph, values = build.graph, attributes(node)
    x = node.input[0]
    shape = graph.shape(x)
    if shape is None or shape[-1] not in (1, 2):
        return None
    rank = len(shape)
    axis = values.get("axis", 1)
    if graph.opset >= 20:
        axis = -2
        if optional_input(node, 2):
            constant = graph.constant(node.input[2])
            if constant is None:
                return None
            axis = int(constant.reshape(-1)[0])
    axis %= rank
    size = shape[axis]
    if not isinstance(size, int):
        return None
    inverse, onesided = bool(values.get("inverse", 0)), bool(values.get("onesided", 0))
    is_real = inverse and onesided
    length = 2 * (size - 1) if is_real else size
    if optional_input(node, 1):
        constant = graph.constant(node.input[1])
        if constant is None:
            return None
        length = int(constant.reshape(-1)[0])
    if not 0 < length <= MAX_LENGTH or axis == rank - 1 or (is_real and shape[-1] == 1):
        return None
    bins = length // 2 + 1 if onesided and not inverse else length
    rows = min(length // 2 + 1 if is_real else length, size)
    dtype = graph.numpy_dtype(x)
    if is_real:
        cosine, sine = half_spectrum_matrix(length, 1 / length, dtype)
    else:
        cosine, sine = dft_matrices(length, bins, inverse, dtype)
    # Slicing the matrix's rows crops or zero-pads the signal to the length.
    first, second = build.const(cosine[:rows], cosine.dtype), build.const(sine[:rows], sine.dtype)
    data = x if rows == size else build.slice(x, axis, 0, rows)
    order = [at for at in range(rank - 1) if at != axis] + [axis]

    def part(index: int) -> str:
        plane = build.squeeze(build.slice(data, rank - 1, index, index + 1), [rank - 1])
        return build.transpose(plane, order) if order != list(range(rank - 1)) else plane

    real, imaginary = _transform(build, part(0), part(1) if shape[-1] == 2 else "", first, second)
    back = [order.index(at) for at in range(rank - 1)]
    parts = (real,) if is_real else (real, imaginary)
    planes = [build.unsqueeze(build.transpose(plane, back), [rank - 1]) for plane in parts]
    return [planes[0] if is_real else build.concat(planes, rank - 1)]


def stft(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write an STFT of a fixed length as a Gather of frames, the window, and a matmul with the DFT matrix.

    Over a dynamic length, it is a convolution with the product of the window and the matrix.
    """
    graph = build.graph
    signal, step_name = node.input[:2]
    shape, step = graph.shape(signal), graph.constant(step_name)
    window, length_name = optional_input(node, 2), optional_input(node, 3)
    if shape is None or step is None or (len(shape) == 3 and shape[-1] not in (1, 2)):
        return None
    window_shape = graph.static_shape(window) if window else None
    length_value = graph.constant(length_name) if length_name else None
    if length_value is not None:
        length = int(length_value.reshape(-1)[0])
    elif window_shape and not length_name:
        length = window_shape[0]
    else:
        return None
    if length > MAX_LENGTH or (window_shape and window_shape[0] != length):
        return None
    hop = int(step.reshape(-1)[0])
    bins = length // 2 + 1 if attributes(node).get("onesided", 1) else length
    cosine, sine = dft_matrices(length, bins, False, graph.numpy_dtype(signal))
    if not isinstance(shape[1], int):
        factors = graph.weights(window) if window else np.ones(length)
        if factors is None or (len(shape) == 3 and shape[-1] == 2):
            return None
        return [_convolve_frames(build, signal, hop, np.concatenate([cosine, sine], 1) * factors[:, None])]
    frames = (shape[1] - length) // hop + 1
    index = build.const(np.arange(frames)[:, None] * hop + np.arange(length)[None, :], np.int64)

    def part(plane: int) -> str:
        flat = signal
        if len(shape) == 3:
            flat = build.squeeze(build.slice(signal, 2, plane, plane + 1), [2])
        framed = build.op("Gather", flat, index, axis=1)
        return build.op("Mul", framed, window) if window else framed

    imaginary = part(1) if len(shape) == 3 and shape[-1] == 2 else ""
    first, second = build.const(cosine, cosine.dtype), build.const(sine, sine.dtype)
    planes = _transform(build, part(0), imaginary, first, second)
    return [build.concat([build.unsqueeze(plane, [3]) for plane in planes], 3)]


def _convolve_frames(build: Builder, signal: str, hop: int, matrix: np.ndarray) -> str:
    """The spectrum [batch, frames, bins, 2] of a real signal [batch, length], or [batch, length, 1].

    Args:
        hop: distance between frames, in samples.
        matrix: [samples of a frame, 2·bins], the real part first.
    """
    data = build.transpose(signal, [0, 2, 1]) if build.graph.rank(signal) == 3 else build.unsqueeze(signal, [1])
    kernel = build.const(matrix.T[:, None, :], build.graph.numpy_dtype(signal))
    spectrum = build.transpose(build.op("Conv", data, kernel, strides=[hop]), [0, 2, 1])
    bins = matrix.shape[1] // 2
    planes = [build.slice(spectrum, 2, start, start + bins) for start in (0, bins)]
    return build.concat([build.unsqueeze(plane, [3]) for plane in planes], 3)


def _scan(node: onnx.NodeProto, build: Builder, operator: str, neutral: int) -> list[str] | None:
    """A running sum or product in log₂(n) steps (Hillis and Steele, 1986); a run-time axis selects among all axes."""
    graph, values = build.graph, attributes(node)
    x, axis_name = node.input
    shape, axis = graph.static_shape(x), graph.constant(axis_name)
    if shape is None or 0 in shape:
        return None

    def scan_axis(axis: int) -> str:
        extent = shape[axis]
        result = build.slice(x, axis, -1, -(2**31), -1) if values.get("reverse", 0) else x

        def shifted(name: str, by: int) -> str:
            filled = [by if at == axis else size for at, size in enumerate(shape)]
            filler = build.const(np.full(filled, neutral), graph.numpy_dtype(x))
            return filler if by == extent else build.concat([filler, build.slice(name, axis, 0, extent - by)], axis)

        if values.get("exclusive", 0):
            result = shifted(result, 1)
        by = 1
        while by < extent:
            result = build.op(operator, result, shifted(result, by))
            by *= 2
        return build.slice(result, axis, -1, -(2**31), -1) if values.get("reverse", 0) else result

    if axis is not None:
        return [scan_axis(int(axis.reshape(-1)[0]) % len(shape))]
    name = build.reshape(build.cast(axis_name, TensorProto.INT64), [])
    rank = build.const(len(shape), np.int64)
    name = build.op("Where", build.op("Less", name, build.const(0, np.int64)), build.op("Add", name, rank), name)
    result = scan_axis(0)
    for number in range(1, len(shape)):
        result = build.op("Where", build.op("Equal", name, build.const(number, np.int64)), scan_axis(number), result)
    return [result]


def cumulative_product(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out a running product. TVM has no importer."""
    return _scan(node, build, "Mul", 1)


def cumulative_sum(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out a running sum with a run-time axis; the importer supports a constant one."""
    return None if build.graph.is_constant(node.input[1]) else _scan(node, build, "Add", 0)


RULES = {"DFT": dft, "STFT": stft, "CumProd": cumulative_product, "CumSum": cumulative_sum}
