"""Convert TFLite's operators that TVM's importer converts wrongly, or to code that does not build.

Repair: `tflite-softmax-factor`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.frontend.tflite.spectra import SpectrumConverter

from tvm import relax  # isort: skip

NOT_BUILT = frozenset({
    "SPARSE_TO_DENSE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL",
})  # fmt: skip
"""Operators that TVM's importer converts to calls of functions that packages do not contain."""

TRANSPOSED_WITH_BIAS = "CUSTOM:Convolution2DTransposeBias"

TO_CHANNELS_FIRST, TO_CHANNELS_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class Converter(SpectrumConverter):
    """TVM's converter with corrected operators."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.convert_map["DYNAMIC_UPDATE_SLICE"] = self.convert_dynamic_update_slice
        self.convert_map[TRANSPOSED_WITH_BIAS] = self.convert_transpose_conv_of_mediapipe

    def get_op_code_str(self, op: Any) -> str:
        """The name of an operator."""
        code = self.model.OperatorCodes(op.OpcodeIndex()).CustomCode()
        return TRANSPOSED_WITH_BIAS if code == b"Convolution2DTransposeBias" else str(super().get_op_code_str(op))

    def _convert_arg_min_max(self, op: Any, relax_op: Any) -> Any:
        (output,) = self.get_output_tensors(op)
        result = super()._convert_arg_min_max(op, relax_op)
        return relax.op.astype(result, self.get_tensor_type_str(output.tensor.Type()))

    def convert_softmax(self, op: Any) -> Any:
        """Apply the factor beta."""
        from tflite.SoftmaxOptions import SoftmaxOptions

        (data,) = self.get_input_tensors(op)
        beta = _options(op, SoftmaxOptions).Beta()
        if beta == 1:
            return super().convert_softmax(op)
        scaled = relax.op.multiply(self.get_expr(data.tensor_idx), relax.const(beta))
        return relax.op.nn.softmax(scaled, axis=-1)

    def convert_resize_bilinear(self, op: Any) -> Any:
        """Support a single output row or column with aligned corners."""
        from tflite.ResizeBilinearOptions import ResizeBilinearOptions

        data, size = self.get_input_tensors(op)
        is_single = 1 in self.get_tensor_value(size)
        if not _options(op, ResizeBilinearOptions).AlignCorners() or not is_single:
            return super().convert_resize_bilinear(op)
        return self._resize_aligned(data, size, "linear", "")

    def convert_resize_nearest_neighbor(self, op: Any) -> Any:
        """Round ties up with aligned corners."""
        from tflite.ResizeNearestNeighborOptions import ResizeNearestNeighborOptions

        if not _options(op, ResizeNearestNeighborOptions).AlignCorners():
            return super().convert_resize_nearest_neighbor(op)
        data, size = self.get_input_tensors(op)
        return self._resize_aligned(data, size, "nearest_neighbor", "round_prefer_ceil")

    def _resize_aligned(self, data: Any, size: Any, method: str, rounding: str) -> Any:
        """Resize to two rows or columns instead of one and slice: TVM divides by the distance of the first and the last."""
        extents = [int(extent) for extent in self.get_tensor_value(size)]
        least_two = tuple(max(extent, 2) for extent in extents)
        image = self.get_expr(data.tensor_idx)
        resized = relax.op.image.resize2d(image, least_two, None, "NHWC", method, "align_corners", rounding)
        if 1 not in extents:
            return resized
        return relax.op.strided_slice(self.bb.normalize(resized), [1, 2], [0, 0], extents)

    def convert_transpose_conv(self, op: Any) -> Any:
        """Compute in NCHW, for which TVM has a kernel."""
        from tflite.Padding import Padding
        from tflite.TransposeConvOptions import TransposeConvOptions

        shape, kernel, data, *bias = self.get_input_tensors(op)
        options = _options(op, TransposeConvOptions)
        strides, is_same = [options.StrideH(), options.StrideW()], options.Padding() == Padding.SAME
        result = self._transpose_conv(data, kernel, bias, self.get_tensor_value(shape), strides, is_same)
        return self.convert_fused_activation_function(result, options.FusedActivationFunction())

    def convert_transpose_conv_of_mediapipe(self, op: Any) -> Any:
        """Convert MediaPipe's operator, whose options are the C structure ``TfLiteTransposeConvParams``.

        Source: mediapipe/util/tflite/operations/transpose_conv_bias.cc; LiteRT computes it in XNNPACK.
        """
        padding, width, height = np.frombuffer(op.CustomOptionsAsNumpy().tobytes(), "<i4")[:3].tolist()
        data, kernel, *bias = self.get_input_tensors(op)
        (output,) = self.get_output_tensors(op)
        is_same = padding == 1  # kTfLitePaddingSame
        return self._transpose_conv(data, kernel, bias, self.get_tensor_shape(output), [height, width], is_same)

    def _transpose_conv(
        self, data: Any, kernel: Any, bias: Sequence[Any], shape: Any, strides: Sequence[int], is_same: bool
    ) -> Any:
        """A transposed convolution.

        Args:
            shape: of the result.
            is_same: whether the padding is TensorFlow's ``SAME``.
        """
        out = [int(extent) for extent in shape][1:3]
        taps = [int(extent) for extent in self.get_tensor_shape(kernel)][1:3]
        sizes = [int(extent) for extent in self.get_tensor_shape(data)][1:3]
        before, after, extra = [], [], []
        for extent, tap, stride, size in zip(out, taps, strides, sizes, strict=True):
            padding = max((-(-extent // stride) - 1) * stride + tap - extent, 0) if is_same else 0
            before.append(padding // 2)
            rest = (size - 1) * stride + tap - before[-1] - extent
            after.append(max(rest, 0))
            extra.append(max(-rest, 0))
        result = relax.op.nn.conv2d_transpose(
            relax.op.permute_dims(self.get_tensor_expr(data), TO_CHANNELS_FIRST),
            relax.op.permute_dims(self.get_tensor_expr(kernel), [3, 0, 1, 2]),
            strides=strides,
            padding=before + after,
            output_padding=extra,
        )
        result = relax.op.permute_dims(result, TO_CHANNELS_LAST)
        if bias and bias[0].tensor_idx >= 0:
            result = relax.op.add(result, self.get_tensor_expr(bias[0]))
        return result

    def convert_fully_connected(self, op: Any) -> Any:
        """Reshape an input of any rank to rows; restore its leading axes if the options say so."""
        from tflite.FullyConnectedOptions import FullyConnectedOptions

        data, weights, *bias = self.get_input_tensors(op)
        options = _options(op, FullyConnectedOptions)
        neurons, inputs = (int(extent) for extent in self.get_tensor_shape(weights))
        shape = [int(extent) for extent in self._infer_shape(self.get_tensor_expr(data))]
        rows = self.bb.normalize(relax.op.reshape(self.get_tensor_expr(data), [-1, inputs]))
        result = relax.op.matmul(rows, relax.op.permute_dims(self.get_tensor_expr(weights), [1, 0]))
        for values in (tensor for tensor in bias if tensor.tensor_idx >= 0):
            result = relax.op.add(result, self.get_tensor_expr(values))
        result = self.convert_fused_activation_function(result, options.FusedActivationFunction())
        if len(shape) == 2:
            return result
        result = self.bb.normalize(result)
        return relax.op.reshape(result, [*shape[:-1], neurons] if options.KeepNumDims() else [-1, neurons])

    def convert_expand_dims(self, op: Any) -> Any:
        """Insert one axis."""
        data, axis = self.get_input_tensors(op)
        return relax.op.expand_dims(self.get_tensor_expr(data), self.get_tensor_value(axis).item())

    def convert_squeeze(self, op: Any) -> Any:
        """Remove all axes of size 1 if the options name none."""
        from tflite.SqueezeOptions import SqueezeOptions

        (data,) = self.get_input_tensors(op)
        if _options(op, SqueezeOptions).SqueezeDimsLength():
            return super().convert_squeeze(op)
        return relax.op.squeeze(self.get_expr(data.tensor_idx))

    def convert_fill(self, op: Any) -> Any:
        """Support a constant value."""
        shape, value = self.get_input_tensors(op)
        if self.has_expr(shape.tensor_idx):
            return super().convert_fill(op)
        extents = [int(extent) for extent in self.get_tensor_value(shape)]
        return relax.op.broadcast_to(self.get_tensor_expr(value), extents)

    def convert_embedding_lookup(self, op: Any) -> Any:
        """Take rows of the second operand by the indices in the first."""
        indices, table = self.get_input_tensors(op)
        return relax.op.take(self.get_tensor_expr(table), self.get_tensor_expr(indices), axis=0)

    def convert_scatter_nd(self, op: Any) -> Any:
        """Sum updates with the same index."""
        indices, updates, shape = self.get_input_tensors(op)
        (output,) = self.get_output_tensors(op)
        extents = [int(extent) for extent in self.get_tensor_value(shape)]
        zeros = relax.op.zeros(extents, self.get_tensor_type_str(output.tensor.Type()))
        index = relax.op.astype(self.get_tensor_expr(indices), "int64")
        return relax.op.scatter_nd(zeros, index, self.get_tensor_expr(updates), "add")

    def convert_gelu(self, op: Any) -> Any:
        """Use the tanh approximation if the options say so."""
        from tflite.GeluOptions import GeluOptions

        (data,) = self.get_input_tensors(op)
        if not _options(op, GeluOptions).Approximate():
            return super().convert_gelu(op)
        return relax.op.nn.gelu_tanh(self.get_tensor_expr(data))

    def convert_cumsum(self, op: Any) -> Any:
        """Support sums from the end."""
        from tflite.CumsumOptions import CumsumOptions

        data, axis = self.get_input_tensors(op)
        options = _options(op, CumsumOptions)
        if not options.Reverse() or self.has_expr(axis.tensor_idx):
            return super().convert_cumsum(op)
        value, number = self.get_tensor_expr(data), self.get_tensor_value(axis).item()
        sums = relax.op.flip(relax.op.cumsum(relax.op.flip(value, number), number), number)
        return relax.op.subtract(sums, value) if options.Exclusive() else sums

    def convert_select(self, op: Any) -> Any:
        """Support a condition with one boolean per row."""
        tensors = self.get_input_tensors(op)
        if len(tensors) == 1:
            raise ValueError("the number of indices that WHERE returns depends on the data")
        condition, *values = (self.get_tensor_expr(tensor) for tensor in tensors)
        ranks = [len(self._infer_shape(value)) for value in (condition, *values)]
        selects_rows = self.get_op_code_str(op) == "SELECT" and ranks[0] == 1 < ranks[1]
        condition = relax.op.reshape(condition, [-1, *[1] * (ranks[1] - 1)]) if selects_rows else condition
        return relax.op.where(condition, *values)

    def convert_dynamic_update_slice(self, op: Any) -> Any:
        """Write a block at a run-time index, which is clipped so that the block is inside."""
        data, update, begin = (self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op))
        shape, block = (list(map(int, self._infer_shape(value))) for value in (data, update))
        is_inside = relax.const(np.ones([1] * len(shape), bool))
        for axis, (extent, width) in enumerate(zip(shape, block, strict=True)):
            start = relax.op.take(begin, relax.const([axis], "int64"), axis=0)
            start = relax.op.clip(self.bb.normalize(relax.op.astype(start, "int64")), 0, extent - width)
            row = self.bb.normalize(relax.op.subtract(relax.const(np.arange(extent), "int64"), start))
            inside = self.bb.normalize(relax.op.clip(row, 0, width - 1))
            update = self.bb.normalize(relax.op.take(update, inside, axis=axis))
            is_row = self.bb.normalize(relax.op.equal(row, inside))
            is_row = relax.op.reshape(is_row, [-1 if number == axis else 1 for number in range(len(shape))])
            is_inside = relax.op.logical_and(is_inside, is_row)
        return relax.op.where(is_inside, update, data)

    def convert_gather(self, op: Any) -> Any:
        """Support batch axes that the indices share with the data. TVM's importer visits each element of the result in Python."""
        from tflite.GatherOptions import GatherOptions

        data, indices = self.get_input_tensors(op)
        options = _options(op, GatherOptions)
        batch_axes, axis = options.BatchDims(), options.Axis()
        axis %= len(self.get_tensor_shape(data))
        if not batch_axes:
            return relax.op.take(self.get_tensor_expr(data), self.get_tensor_expr(indices), axis)
        if axis != batch_axes:
            return super().convert_gather(op)
        index = relax.op.expand_dims(relax.op.astype(self.get_tensor_expr(indices), "int64"), -1)
        return relax.op.gather_nd(self.get_tensor_expr(data), index, batch_axes)

    def convert_gather_nd(self, op: Any) -> Any:
        """Gather by the indices along the last axis."""
        data, indices = (self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op))
        return relax.op.gather_nd(data, relax.op.astype(indices, "int64"))

    def convert_batch_matmul(self, op: Any) -> Any:
        """Support batches that are broadcast."""
        from tflite.BatchMatMulOptions import BatchMatMulOptions

        tensors = self.get_input_tensors(op)
        options = _options(op, BatchMatMulOptions)
        operands = []
        for tensor, is_transposed in zip(tensors, (options.AdjX(), options.AdjY()), strict=True):
            operand, rank = self.get_tensor_expr(tensor), len(self.get_tensor_shape(tensor))
            axes = [*range(rank - 2), rank - 1, rank - 2]
            operands.append(relax.op.permute_dims(operand, axes) if is_transposed else operand)
        return relax.op.matmul(*operands)

    def convert_mirror_pad(self, op: Any) -> Any:
        """Support the symmetric mode, which repeats the outermost elements."""
        from tflite.MirrorPadMode import MirrorPadMode
        from tflite.MirrorPadOptions import MirrorPadOptions

        data, paddings = self.get_input_tensors(op)
        if _options(op, MirrorPadOptions).Mode() == MirrorPadMode.REFLECT:
            return super().convert_mirror_pad(op)
        result = self.get_tensor_expr(data)
        extents = self._infer_shape(result)
        for axis, (low, high) in enumerate(self.get_tensor_value(paddings)):
            if low or high:
                indices = np.pad(np.arange(int(extents[axis])), (int(low), int(high)), "symmetric")
                result = relax.op.take(result, relax.const(indices, "int64"), axis=axis)
        return result

    def convert_space_to_batch_nd(self, op: Any) -> Any:
        """Pad, and move the positions within blocks before the batch."""
        data, blocks, paddings = self.get_input_tensors(op)
        block = [int(extent) for extent in self.get_tensor_value(blocks)]
        widths = [(0, 0), *((int(low), int(high)) for low, high in self.get_tensor_value(paddings))]
        shape = [int(extent) for extent in self._infer_shape(self.get_expr(data.tensor_idx))]
        widths += [(0, 0)] * (len(shape) - len(widths))
        pads = [width for pair in widths for width in pair]
        padded = relax.op.nn.pad(self.get_expr(data.tensor_idx), pads, "constant", 0.0)
        batch, *rest = [extent + low + high for extent, (low, high) in zip(shape, widths, strict=True)]
        split = [part for extent, size in zip(rest, block, strict=False) for part in (extent // size, size)]
        count, inner = len(block), rest[len(block) :]
        axes = [
            *range(2, 2 * count + 1, 2),
            0,
            *range(1, 2 * count, 2),
            *range(2 * count + 1, 2 * count + 1 + len(inner)),
        ]
        blocked = relax.op.permute_dims(relax.op.reshape(padded, [batch, *split, *inner]), axes)
        return relax.op.reshape(blocked, [batch * math.prod(block), *split[::2], *inner])

    def convert_batch_to_space_nd(self, op: Any) -> Any:
        """Invert SPACE_TO_BATCH_ND, and crop."""
        data, blocks, crops = self.get_input_tensors(op)
        block = [int(extent) for extent in self.get_tensor_value(blocks)]
        batch, *rest = [int(extent) for extent in self._infer_shape(self.get_expr(data.tensor_idx))]
        count, inner = len(block), rest[len(block) :]
        batches = batch // math.prod(block)
        blocked = relax.op.reshape(self.get_expr(data.tensor_idx), [*block, batches, *rest])
        pairs = [axis for number in range(count) for axis in (count + 1 + number, number)]
        axes = [count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(inner))]
        sizes = [extent * size for extent, size in zip(rest, block, strict=False)]
        whole = relax.op.reshape(relax.op.permute_dims(blocked, axes), [batches, *sizes, *inner])
        widths = [(int(low), int(high)) for low, high in self.get_tensor_value(crops)]
        begin = [low for low, _ in widths]
        end = [extent - high for extent, (_, high) in zip(sizes, widths, strict=True)]
        return relax.op.strided_slice(whole, list(range(1, count + 1)), begin, end)


def _options(op: Any, kind: Any) -> Any:
    options, table = kind(), op.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return options
