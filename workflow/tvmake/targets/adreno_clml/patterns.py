"""What CLML computes: TVM's patterns, further layers of TVM's runtime for CLML, and their limits.

TVM's table checks few shapes and attributes; some of its matches compute wrong values or end the program. The patterns
here match only the layers that ``native/clml`` can describe to the library; kernels compute the others.
"""

from collections.abc import Callable, Iterator
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, operator_name

from tvm import relax  # isort: skip
from tvm.relax.backend.adreno import clml as tvm_clml  # isort: skip
from tvm.relax.dpl.pattern import is_const, is_op, is_tuple, wildcard  # isort: skip

PREFIX = "openclml."
"""The prefix of all pattern names."""

DTYPES = ("float32", "float16")

MOST_CONCATENATED = 4

Check = Callable[[Any], bool]


def pattern_table() -> list[tuple[str, Any, dict[str, Any], Check]]:
    """Name, pattern, annotations and check of each pattern, in order of preference."""
    tvm_patterns = [
        (name, pattern, notes, _with_limits(check)) for name, pattern, notes, check in tvm_clml.clml_pattern_table()
    ]
    # TVM's patterns lack the bounds, which are arguments, so they never match.
    tvm_patterns = [item for item in tvm_patterns if "clip" not in item[0]]
    more = [*_matmuls(), *_clips(), *_concatenations(), *_arrangements(), *_resizes()]
    return [*_relu6_convolutions(tvm_patterns), *_depth_to_space(), *tvm_patterns, *more]


def _with_limits(check: Check) -> Check:
    return lambda context: check(context) and suits(context)


def _relu6_convolutions(patterns: list[tuple[str, Any, dict[str, Any], Check]]) -> Iterator[Any]:
    for name, pattern, notes, check in patterns:
        if name.endswith("nn.conv2d") and ".relu." not in name and "tuple" not in name:
            clip = is_op("relax.clip")(pattern, wildcard(), wildcard())
            yield f"{PREFIX}relu6.{name.removeprefix(PREFIX)}", clip, dict(notes), check


def _matmuls() -> list[Any]:
    data, weight, other = wildcard(), is_const(), wildcard()
    dense = is_op("relax.matmul")(data, weight)
    biased = is_op("relax.add")(dense, is_const())
    return [
        (f"{PREFIX}bias.nn.dense", biased, {}, suits),
        (f"{PREFIX}nn.dense", dense, {}, suits),
        (f"{PREFIX}nn.batch_matmul", is_op("relax.matmul")(wildcard(), other), {}, suits),
    ]


def _clips() -> list[Any]:
    pattern = is_op("relax.clip")(wildcard(), wildcard(), wildcard())
    return [
        (f"{PREFIX}nn.relu6", pattern, {}, lambda context: suits(context) and all(map(_is_six, _calls(context)))),
        (f"{PREFIX}clip", pattern, {}, suits),
    ]


def _concatenations() -> list[Any]:
    return [
        (f"{PREFIX}concatenate", is_op("relax.concat")(is_tuple([wildcard() for _ in range(count)])), {}, suits)
        for count in range(2, MOST_CONCATENATED + 1)
    ]


def _arrangements() -> list[Any]:
    return [(f"{PREFIX}nn.pad", is_op("relax.nn.pad")(wildcard()), {}, suits)]


def _resizes() -> list[Any]:
    return [(f"{PREFIX}nn.upsampling", is_op("relax.image.resize2d")(wildcard(), wildcard()), {}, suits)]


def _depth_to_space() -> list[Any]:
    split = is_op("relax.reshape")(wildcard(), wildcard())
    pattern = is_op("relax.reshape")(is_op("relax.permute_dims")(split), wildcard())
    return [(f"{PREFIX}nn.depth_to_space", pattern, {}, _is_depth_to_space)]


def suits(context: Any) -> bool:
    """Whether the library can express a match."""
    calls = _calls(context)
    result = context.matched_expr.ty
    if not isinstance(result, relax.TensorType) or not calls:
        return False
    tensors = [call.ty for call in calls if isinstance(call.ty, relax.TensorType)]
    tensors += [argument.ty for call in calls for argument in _tensors(call)]
    if not _are_plain(tensors):
        return False
    is_convolution = any(operator_name(call) == "nn.conv2d" for call in calls)
    return all(_supports(call, is_convolution, calls) for call in calls)


def _supports(call: Any, in_convolution: bool, calls: list[Any]) -> bool:
    name = operator_name(call)
    match name:
        case "nn.conv2d":
            return _supports_convolution(call)
        case "nn.pad":
            return _pads_images(call) and (not in_convolution or _has_no_padding(calls))
        case "add" if in_convolution:
            return _is_by_channel(call.args[1], shape_of(call)[1])
        case "add" if any(operator_name(item) == "matmul" for item in calls):
            extents = shape_of(call.args[1])
            return (
                shape_of(call)[:-1] == [1] * (len(shape_of(call)) - 1)
                and len(shape_of(call)) == 2
                and (extents in ([shape_of(call)[-1]], shape_of(call)))
            )
        case "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum":
            return shape_of(call.args[0]) == shape_of(call.args[1]) != []
        case "matmul":
            return _suits_matmul(call)
        case "nn.batch_norm":
            # In training mode it uses the batch's own statistics.
            return call.attrs.axis == 1 and call.attrs.center and call.attrs.scale and not call.attrs.training
        case "nn.max_pool2d" | "nn.avg_pool2d":
            return _supports_pooling(call)
        case "mean":
            height, width = shape_of(call.args[0])[2:]
            # TVM's runtime passes the pooling window as (width, height) here, and as (height, width) for other
            # poolings.
            return height == width
        case "image.resize2d":
            return _supports_resize(call)
        case "clip":
            return all(
                isinstance(bound, tvm.tirx.FloatImm | tvm.tirx.IntImm) for bound in map(_bound, call.args[1:])
            ) and (not in_convolution or _is_six(call))
        case "nn.relu" | "nn.softmax" | "reshape" | "concat":
            return len(shape_of(call)) > 0
    return False


def _supports_convolution(call: Any) -> bool:
    attrs = call.attrs
    channels, weight = shape_of(call.args[0])[1], shape_of(call.args[1])
    is_depthwise = attrs.groups == channels == weight[0] and weight[1] == 1
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW")
    return layouts == ("NCHW", "OIHW", "NCHW") and (attrs.groups == 1 or is_depthwise)


def _pads_images(call: Any) -> bool:
    """Whether the call pads only height and width of feature maps, with zeros."""
    width = [int(item) for item in call.attrs.pad_width]
    value = float(getattr(call.attrs, "pad_value", 0) or 0)
    is_constant = str(call.attrs.pad_mode) == "constant" and value == 0 and len(call.args) == 1
    return len(width) == 8 and not any(width[:4]) and min(width) >= 0 and is_constant


def _has_no_padding(calls: list[Any]) -> bool:
    """Whether the convolution can take over the padding of a ``pad`` before it."""
    (convolution,) = [item for item in calls if operator_name(item) == "nn.conv2d"]
    return not any(int(item) for item in convolution.attrs.padding)


def _supports_resize(call: Any) -> bool:
    """Whether a resize is bilinear, with coordinates that TVM's runtime supports.

    The runtime can align corners, but has no half-pixel coordinates.
    """
    attrs = call.attrs
    modes = {"asymmetric", "align_corners"}
    return attrs.layout == "NCHW" and attrs.method == "linear" and attrs.coordinate_transformation_mode in modes


def _is_depth_to_space(context: Any) -> bool:
    """Whether channels become blocks of an image, in the order of ``nn.depth_to_space`` ("DCR": position, channel)."""
    (moved,) = [call for call in _calls(context) if operator_name(call) == "permute_dims"]
    split, result = context.matched_bindings[moved.args[0]], context.matched_expr
    source, extents = split.args[0], shape_of(split)
    if not _are_plain([source.ty, result.ty]) or len(shape_of(source)) != 4 or len(extents) != 6:
        return False
    count, side, other, channels, height, width = extents
    axes = [int(axis) for axis in moved.attrs.axes or ()]
    return (
        side == other
        and axes == [0, 3, 4, 1, 5, 2]
        and shape_of(source) == [count, side * side * channels, height, width]
        and shape_of(result) == [count, channels, height * side, width * side]
    )


def _supports_pooling(call: Any) -> bool:
    attrs = call.attrs
    padding, window, strides = (
        [int(item) for item in values] for values in (attrs.padding, attrs.pool_size, attrs.strides)
    )
    is_average = operator_name(call) == "nn.avg_pool2d"
    if attrs.layout != "NCHW" or any(int(item) != 1 for item in attrs.dilation):
        return False
    if is_average and attrs.count_include_pad and any(padding):
        return False
    image = shape_of(call.args[0])[2:]
    remainders = [
        (extent + before + after - size) % stride
        for extent, before, after, size, stride in zip(image, padding[:2], padding[2:], window, strides, strict=True)
    ]
    return not (attrs.ceil_mode and any(remainders))


def _suits_matmul(call: Any) -> bool:
    left, right = shape_of(call.args[0]), shape_of(call.args[1])
    return len(left) > 1 and len(right) > 1 and all(extent == 1 for extent in [*left[:-2], *right[:-2]])


def _is_by_channel(value: Any, channels: int) -> bool:
    return isinstance(value, tvm.ir.GenericConst) and shape_of(value) == [1, channels, 1, 1]


def _is_six(call: Any) -> bool:
    return [float(getattr(_bound(bound), "value", -1)) for bound in call.args[1:]] == [0.0, 6.0]


def _bound(argument: Any) -> Any:
    return (
        getattr(argument, "value", argument)
        if not isinstance(argument, tvm.tirx.FloatImm | tvm.tirx.IntImm)
        else argument
    )


def _calls(context: Any) -> list[Any]:
    return [value for value in context.matched_bindings.values() if operator_name(value)]


def _tensors(call: Any) -> list[Any]:
    fields = [
        item
        for argument in call.args
        for item in (argument.fields if isinstance(argument, relax.Tuple) else [argument])
    ]
    return [item for item in fields if isinstance(item.ty, relax.TensorType)]


def _are_plain(tensors: list[Any]) -> bool:
    """Whether tensors are plain and share one dtype that the library supports."""
    dtypes = {dtype_name(item) for item in tensors}
    return len(dtypes) == 1 and dtypes <= {*DTYPES} and all(map(_is_plain, tensors))


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor has at most four extents, all static and positive."""
    if tensor.shape is None or not isinstance(tensor.shape, relax.ShapeExpr) or len(tensor.shape) > 4:
        return False
    return all(isinstance(extent, tvm.tirx.IntImm) and int(extent) > 0 for extent in tensor.shape)


def shape_of(value: Any) -> list[int]:
    """The extents of a value with a static shape."""
    return [int(extent) for extent in value.ty.shape]
