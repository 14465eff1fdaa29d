"""TFLite's operators that TVM's importer gets wrong, or writes as nothing that builds.

Repair: `tflite-softmax-factor`.
"""

import math
from typing import Any

import numpy as np

from tvmake.frontend.tflite.lstm import RecurrentConverter

from tvm import relax  # isort: skip

NOT_BUILT = frozenset({
    "SPARSE_TO_DENSE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL",
})  # fmt: skip
"""What TVM's importer writes as calls of functions that packages do not have."""

TO_CHANNELS_FIRST, TO_CHANNELS_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class Converter(RecurrentConverter):
    """TVM's converter, with operators of its own."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.convert_map["DYNAMIC_UPDATE_SLICE"] = self.convert_dynamic_update_slice

    def _convert_arg_min_max(self, op: Any, relax_op: Any) -> Any:
        (output,) = self.get_output_tensors(op)
        found = super()._convert_arg_min_max(op, relax_op)
        return relax.op.astype(found, self.get_tensor_type_str(output.tensor.Type()))

    def convert_softmax(self, op: Any) -> Any:
        """With its factor."""
        from tflite.SoftmaxOptions import SoftmaxOptions

        (data,) = self.get_input_tensors(op)
        beta = _options(op, SoftmaxOptions).Beta()
        if beta == 1:
            return super().convert_softmax(op)
        scaled = relax.op.multiply(self.get_expr(data.tensor_idx), relax.const(beta))
        return relax.op.nn.softmax(scaled, axis=-1)

    def convert_resize_bilinear(self, op: Any) -> Any:
        """To one row or column too, with corners aligned."""
        from tflite.ResizeBilinearOptions import ResizeBilinearOptions

        data, size = self.get_input_tensors(op)
        is_single = 1 in self.get_tensor_value(size)
        if not _options(op, ResizeBilinearOptions).AlignCorners() or not is_single:
            return super().convert_resize_bilinear(op)
        return self._resized_by_corners(data, size, "linear", "")

    def convert_resize_nearest_neighbor(self, op: Any) -> Any:
        """The pixel above where places lie in the middle, with corners aligned too."""
        from tflite.ResizeNearestNeighborOptions import ResizeNearestNeighborOptions

        if not _options(op, ResizeNearestNeighborOptions).AlignCorners():
            return super().convert_resize_nearest_neighbor(op)
        data, size = self.get_input_tensors(op)
        return self._resized_by_corners(data, size, "nearest_neighbor", "round_prefer_ceil")

    def _resized_by_corners(self, data: Any, size: Any, method: str, rounding: str) -> Any:
        """A single row or column is the first of two: TVM divides by the distance between the first and the last."""
        extents = [int(extent) for extent in self.get_tensor_value(size)]
        least_two = tuple(max(extent, 2) for extent in extents)
        picture = self.get_expr(data.tensor_idx)
        made = relax.op.image.resize2d(picture, least_two, None, "NHWC", method, "align_corners", rounding)
        if 1 not in extents:
            return made
        return relax.op.strided_slice(self.bb.normalize(made), [1, 2], [0, 0], extents)

    def convert_transpose_conv(self, op: Any) -> Any:
        """With channels first, for which there is a kernel."""
        from tflite.Padding import Padding
        from tflite.TransposeConvOptions import TransposeConvOptions

        shape, kernel, data, *bias = self.get_input_tensors(op)
        options = _options(op, TransposeConvOptions)
        strides = [options.StrideH(), options.StrideW()]
        out = [int(extent) for extent in self.get_tensor_value(shape)][1:3]
        taps = [int(extent) for extent in self.get_tensor_shape(kernel)][1:3]
        given = [int(extent) for extent in self.get_tensor_shape(data)][1:3]
        before, after, extra = [], [], []
        for extent, tap, step, count in zip(out, taps, strides, given, strict=True):
            both = max((-(-extent // step) - 1) * step + tap - extent, 0) if options.Padding() == Padding.SAME else 0
            before.append(both // 2)
            rest = (count - 1) * step + tap - before[-1] - extent
            after.append(max(rest, 0))
            extra.append(max(-rest, 0))
        found = relax.op.nn.conv2d_transpose(
            relax.op.permute_dims(self.get_tensor_expr(data), TO_CHANNELS_FIRST),
            relax.op.permute_dims(self.get_tensor_expr(kernel), [3, 0, 1, 2]),
            strides=strides,
            padding=before + after,
            output_padding=extra,
        )
        found = relax.op.permute_dims(found, TO_CHANNELS_LAST)
        if bias and bias[0].tensor_idx >= 0:
            found = relax.op.add(found, self.get_tensor_expr(bias[0]))
        return self.convert_fused_activation_function(found, options.FusedActivationFunction())

    def convert_fully_connected(self, op: Any) -> Any:
        """As rows of what a neuron takes, whatever rank the input has; with its axes where they are to be kept."""
        from tflite.FullyConnectedOptions import FullyConnectedOptions

        data, weights, *bias = self.get_input_tensors(op)
        options = _options(op, FullyConnectedOptions)
        neurons, taken = (int(extent) for extent in self.get_tensor_shape(weights))
        shape = [int(extent) for extent in self._infer_shape(self.get_tensor_expr(data))]
        rows = self.bb.normalize(relax.op.reshape(self.get_tensor_expr(data), [-1, taken]))
        found = relax.op.matmul(rows, relax.op.permute_dims(self.get_tensor_expr(weights), [1, 0]))
        for values in (one for one in bias if one.tensor_idx >= 0):
            found = relax.op.add(found, self.get_tensor_expr(values))
        found = self.convert_fused_activation_function(found, options.FusedActivationFunction())
        if len(shape) == 2:
            return found
        found = self.bb.normalize(found)
        return relax.op.reshape(found, [*shape[:-1], neurons] if options.KeepNumDims() else [-1, neurons])

    def convert_expand_dims(self, op: Any) -> Any:
        """One axis more."""
        data, axis = self.get_input_tensors(op)
        return relax.op.expand_dims(self.get_tensor_expr(data), self.get_tensor_value(axis).item())

    def convert_squeeze(self, op: Any) -> Any:
        """All axes of one element where none is named."""
        from tflite.SqueezeOptions import SqueezeOptions

        (data,) = self.get_input_tensors(op)
        if _options(op, SqueezeOptions).SqueezeDimsLength():
            return super().convert_squeeze(op)
        return relax.op.squeeze(self.get_expr(data.tensor_idx))

    def convert_fill(self, op: Any) -> Any:
        """With a value that is a constant, too."""
        shape, value = self.get_input_tensors(op)
        if self.has_expr(shape.tensor_idx):
            return super().convert_fill(op)
        extents = [int(extent) for extent in self.get_tensor_value(shape)]
        return relax.op.broadcast_to(self.get_tensor_expr(value), extents)

    def convert_embedding_lookup(self, op: Any) -> Any:
        """Places first, then the table."""
        places, table = self.get_input_tensors(op)
        return relax.op.take(self.get_tensor_expr(table), self.get_tensor_expr(places), axis=0)

    def convert_scatter_nd(self, op: Any) -> Any:
        """What goes to one place is summed up."""
        places, updates, shape = self.get_input_tensors(op)
        (output,) = self.get_output_tensors(op)
        extents = [int(extent) for extent in self.get_tensor_value(shape)]
        zeros = relax.op.zeros(extents, self.get_tensor_type_str(output.tensor.Type()))
        index = relax.op.astype(self.get_tensor_expr(places), "int64")
        return relax.op.scatter_nd(zeros, index, self.get_tensor_expr(updates), "add")

    def convert_gelu(self, op: Any) -> Any:
        """By tanh where the file says so."""
        from tflite.GeluOptions import GeluOptions

        (data,) = self.get_input_tensors(op)
        if not _options(op, GeluOptions).Approximate():
            return super().convert_gelu(op)
        return relax.op.nn.gelu_tanh(self.get_tensor_expr(data))

    def convert_cumsum(self, op: Any) -> Any:
        """From the end where the file says so."""
        from tflite.CumsumOptions import CumsumOptions

        data, axis = self.get_input_tensors(op)
        options = _options(op, CumsumOptions)
        if not options.Reverse() or self.has_expr(axis.tensor_idx):
            return super().convert_cumsum(op)
        value, place = self.get_tensor_expr(data), self.get_tensor_value(axis).item()
        summed = relax.op.flip(relax.op.cumsum(relax.op.flip(value, place), place), place)
        return relax.op.subtract(summed, value) if options.Exclusive() else summed

    def convert_select(self, op: Any) -> Any:
        """Of rows, where there is one truth value for each."""
        tensors = self.get_input_tensors(op)
        if len(tensors) == 1:
            raise ValueError("how many places WHERE finds depends on the data")
        chosen, *values = (self.get_tensor_expr(tensor) for tensor in tensors)
        ranks = [len(self._infer_shape(value)) for value in (chosen, *values)]
        is_of_rows = self.get_op_code_str(op) == "SELECT" and ranks[0] == 1 < ranks[1]
        chosen = relax.op.reshape(chosen, [-1, *[1] * (ranks[1] - 1)]) if is_of_rows else chosen
        return relax.op.where(chosen, *values)

    def convert_dynamic_update_slice(self, op: Any) -> Any:
        """A block at a place that is computed, moved so far that it lies within."""
        data, update, place = (self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op))
        shape, block = (list(map(int, self._infer_shape(value))) for value in (data, update))
        is_inside = relax.const(np.ones([1] * len(shape), bool))
        for axis, (extent, width) in enumerate(zip(shape, block, strict=True)):
            start = relax.op.take(place, relax.const([axis], "int64"), axis=0)
            start = relax.op.clip(self.bb.normalize(relax.op.astype(start, "int64")), 0, extent - width)
            row = self.bb.normalize(relax.op.subtract(relax.const(np.arange(extent), "int64"), start))
            inside = self.bb.normalize(relax.op.clip(row, 0, width - 1))
            update = self.bb.normalize(relax.op.take(update, inside, axis=axis))
            is_row = self.bb.normalize(relax.op.equal(row, inside))
            is_row = relax.op.reshape(is_row, [-1 if other == axis else 1 for other in range(len(shape))])
            is_inside = relax.op.logical_and(is_inside, is_row)
        return relax.op.where(is_inside, update, data)

    def convert_gather(self, op: Any) -> Any:
        """Along axes that the places share with the data, too."""
        from tflite.GatherOptions import GatherOptions

        data, places = self.get_input_tensors(op)
        options = _options(op, GatherOptions)
        shared, axis = options.BatchDims(), options.Axis()
        if not shared or axis % len(self.get_tensor_shape(data)) != shared:
            return super().convert_gather(op)
        index = relax.op.expand_dims(relax.op.astype(self.get_tensor_expr(places), "int64"), -1)
        return relax.op.gather_nd(self.get_tensor_expr(data), index, shared)

    def convert_gather_nd(self, op: Any) -> Any:
        """Places along the last axis."""
        data, places = (self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op))
        return relax.op.gather_nd(data, relax.op.astype(places, "int64"))

    def convert_batch_matmul(self, op: Any) -> Any:
        """Of batches that are spread over each other, too."""
        from tflite.BatchMatMulOptions import BatchMatMulOptions

        tensors = self.get_input_tensors(op)
        options = _options(op, BatchMatMulOptions)
        sides = []
        for tensor, is_turned in zip(tensors, (options.AdjX(), options.AdjY()), strict=True):
            side, rank = self.get_tensor_expr(tensor), len(self.get_tensor_shape(tensor))
            axes = [*range(rank - 2), rank - 1, rank - 2]
            sides.append(relax.op.permute_dims(side, axes) if is_turned else side)
        return relax.op.matmul(*sides)

    def convert_mirror_pad(self, op: Any) -> Any:
        """With the outermost elements repeated, too."""
        from tflite.MirrorPadMode import MirrorPadMode
        from tflite.MirrorPadOptions import MirrorPadOptions

        data, paddings = self.get_input_tensors(op)
        if _options(op, MirrorPadOptions).Mode() == MirrorPadMode.REFLECT:
            return super().convert_mirror_pad(op)
        found = self.get_tensor_expr(data)
        extents = self._infer_shape(found)
        for axis, (low, high) in enumerate(self.get_tensor_value(paddings)):
            if low or high:
                places = np.pad(np.arange(int(extents[axis])), (int(low), int(high)), "symmetric")
                found = relax.op.take(found, relax.const(places, "int64"), axis=axis)
        return found

    def convert_space_to_batch_nd(self, op: Any) -> Any:
        """Padded, and the places within blocks before the batch."""
        data, blocks, paddings = self.get_input_tensors(op)
        block = [int(extent) for extent in self.get_tensor_value(blocks)]
        around = [(0, 0), *((int(low), int(high)) for low, high in self.get_tensor_value(paddings))]
        shape = [int(extent) for extent in self._infer_shape(self.get_expr(data.tensor_idx))]
        around += [(0, 0)] * (len(shape) - len(around))
        pads = [number for pair in around for number in pair]
        padded = relax.op.nn.pad(self.get_expr(data.tensor_idx), pads, "constant", 0.0)
        batch, *rest = [extent + low + high for extent, (low, high) in zip(shape, around, strict=True)]
        split = [part for extent, step in zip(rest, block, strict=False) for part in (extent // step, step)]
        count, others = len(block), rest[len(block) :]
        axes = [
            *range(2, 2 * count + 1, 2),
            0,
            *range(1, 2 * count, 2),
            *range(2 * count + 1, 2 * count + 1 + len(others)),
        ]
        blocked = relax.op.permute_dims(relax.op.reshape(padded, [batch, *split, *others]), axes)
        return relax.op.reshape(blocked, [batch * math.prod(block), *split[::2], *others])

    def convert_batch_to_space_nd(self, op: Any) -> Any:
        """The inverse of that, cropped."""
        data, blocks, crops = self.get_input_tensors(op)
        block = [int(extent) for extent in self.get_tensor_value(blocks)]
        batch, *rest = [int(extent) for extent in self._infer_shape(self.get_expr(data.tensor_idx))]
        count, others = len(block), rest[len(block) :]
        fewer = batch // math.prod(block)
        apart = relax.op.reshape(self.get_expr(data.tensor_idx), [*block, fewer, *rest])
        pairs = [axis for number in range(count) for axis in (count + 1 + number, number)]
        axes = [count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(others))]
        spread = [extent * step for extent, step in zip(rest, block, strict=False)]
        whole = relax.op.reshape(relax.op.permute_dims(apart, axes), [fewer, *spread, *others])
        cut = [(int(low), int(high)) for low, high in self.get_tensor_value(crops)]
        begin = [low for low, _ in cut]
        end = [extent - high for extent, (_, high) in zip(spread, cut, strict=True)]
        return relax.op.strided_slice(whole, list(range(1, count + 1)), begin, end)


def _options(op: Any, kind: Any) -> Any:
    options, table = kind(), op.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return options
