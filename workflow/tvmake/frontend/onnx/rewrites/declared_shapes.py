"""Replace run-time arguments by constants that follow from declared output shapes.

TVM needs constant axes, shapes and counts. If the output's shape is declared and fixed and exactly one value agrees with it, that value
is used. Otherwise the node is unchanged, and refused later.
"""

import itertools
import math

import numpy as np
import onnx

from tvmake.frontend.onnx.graph import Builder, attributes

REDUCTIONS = {
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
}  # fmt: skip


def is_dynamic(node: onnx.NodeProto, build: Builder, index: int) -> bool:
    """Whether an argument is present and not constant."""
    return index < len(node.input) and bool(node.input[index]) and not build.graph.is_constant(node.input[index])


def declared(node: onnx.NodeProto, build: Builder, index: int = 0) -> tuple[int, ...] | None:
    """An output's fixed shape; a graph output may declare it even if it cannot be inferred."""
    return build.graph.static_shape(node.output[index])


def reduce(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Take the axes from the declared shape; a reduction of no elements gives the operator's neutral element.

    Reducing an axis of size 1 does not change the values.
    """
    values = attributes(node)
    shape, result = build.graph.static_shape(node.input[0]), declared(node, build)
    if shape is None or result is None:
        return None
    if 0 in shape and 0 not in result:
        neutral = _neutral(node.op_type, build.graph.numpy_dtype(node.input[0]))
        is_possible = _choices_between(shape, result, bool(values.get("keepdims", 1)))
        return None if neutral is None or not is_possible else [build.const(np.full(result, neutral), neutral.dtype)]
    if build.graph.dtype(node.input[0]) == onnx.TensorProto.BOOL:
        # TVM has no lowest and highest bool as a start value.
        whole = build.cast(node.input[0], onnx.TensorProto.INT32)
        return [build.cast(build.op(node.op_type, whole, *node.input[1:], **values), onnx.TensorProto.BOOL)]
    if not is_dynamic(node, build, 1):
        return None
    axes = _axes_between(shape, result, bool(values.get("keepdims", 1)))
    if axes is None:
        return None
    if not axes:
        # Over no axis, or axes of size 1, only the element-wise part remains; noop_with_empty_axes means the same.
        ones = [axis for axis, extent in enumerate(shape) if extent == 1]
        if not ones:
            return _identity_or_none(node, build, bool(values.get("noop_with_empty_axes", 0)))
        axes = ones if values.get("keepdims", 1) else None
        if axes is None:
            return None
    return [build.op(node.op_type, node.input[0], build.ints(axes), keepdims=values.get("keepdims", 1))]


def _identity_or_none(node: onnx.NodeProto, build: Builder, noop: bool) -> list[str] | None:
    return (
        [node.input[0]]
        if noop and node.op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
        else None
    )


def _axes_between(shape: tuple[int, ...], result: tuple[int, ...], keepdims: bool) -> list[int] | None:
    """The axes whose reduction turns one shape into the other; None if the choice is ambiguous."""
    choices = _choices_between(shape, result, keepdims)
    different = {tuple(shape[axis] != 1 and axis for axis in axes) for axes in choices}
    return list(min(choices)) if len(different) == 1 else None


def _choices_between(shape: tuple[int, ...], result: tuple[int, ...], keepdims: bool) -> set[tuple[int, ...]]:
    """All sets of axes whose reduction turns one shape into the other; with ``keepdims``, the axes that change."""
    if not keepdims and len(result) <= len(shape):
        return {
            axes
            for axes in itertools.combinations(range(len(shape)), len(shape) - len(result))
            if tuple(extent for axis, extent in enumerate(shape) if axis not in axes) == result
        }
    if len(shape) != len(result):
        return set()
    changed = tuple(axis for axis, (old, new) in enumerate(zip(shape, result, strict=True)) if old != new)
    return {changed} if all(result[axis] == 1 for axis in changed) else set()


def _neutral(operator: str, dtype: np.dtype) -> np.ndarray | None:
    """ONNX's value of a reduction of no elements."""
    if dtype.kind == "b":
        return np.asarray(operator == "ReduceMin")
    is_float = dtype.kind == "f"
    lowest = -np.inf if is_float else (np.iinfo(dtype).min if dtype.kind in "iu" else None)
    highest = np.inf if is_float else (np.iinfo(dtype).max if dtype.kind in "iu" else None)
    value = {
        "ReduceProd": 1, "ReduceMax": lowest, "ReduceMin": highest, "ReduceMean": np.nan if is_float else None,
        "ReduceLogSum": -np.inf if is_float else None, "ReduceLogSumExp": -np.inf if is_float else None,
    }.get(operator, 0)  # fmt: skip
    return None if value is None else np.asarray(value, dtype)


def reshape(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    result = declared(node, build)
    if not is_dynamic(node, build, 1):
        return None
    if result is None or build.graph.static_shape(node.input[0]) is None:
        target = _partial_target(node, build)
        return None if target is None else [build.op("Reshape", node.input[0], build.ints(target))]
    if math.prod(build.graph.static_shape(node.input[0]) or ()) != math.prod(result):
        return None
    # allowzero: a declared extent of 0 means 0.
    return [build.op("Reshape", node.input[0], build.ints(result), allowzero=1 if 0 in result else None)]


def _partial_target(node: onnx.NodeProto, build: Builder) -> list[int] | None:
    """A target shape with 0 for dynamic dimensions that keep their positions, and -1 for one other dynamic dimension.

    Shape inference then knows the fixed dimensions of the result, such as the length of a sequence.
    """
    wanted, shape = build.graph.extents.get(node.input[1]), build.graph.shape(node.input[0])
    if wanted is None or wanted.ndim != 1 or shape is None or attributes(node).get("allowzero"):
        return None
    target = [
        extent
        if isinstance(extent, int | np.integer)
        else 0
        if extent is not None and extent in shape[at : at + 1]
        else -1
        for at, extent in enumerate(wanted)
    ]
    return [int(extent) for extent in target] if target.count(-1) <= 1 else None


def expand(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace the shape by the result's: ONNX broadcasts both ways, the importer only towards the shape."""
    result, shape = declared(node, build), build.graph.constant(node.input[1])
    if result is None and shape is not None and build.graph.static_shape(node.input[0]) is None:
        return _expand_dynamic(node, build, shape)
    if result is None or (shape is not None and tuple(shape) == result):
        return None
    input_shape = build.graph.static_shape(node.input[0])
    if input_shape is not None and not _can_broadcast(input_shape, result):
        return None
    return [build.op("Expand", node.input[0], build.ints(result))]


def _can_broadcast(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Whether broadcasting can turn one shape into the other."""
    pairs = zip(reversed(shape), reversed(result), strict=False)
    return len(shape) <= len(result) and all(old in (1, new) for old, new in pairs)


def _expand_dynamic(node: onnx.NodeProto, build: Builder, shape: np.ndarray) -> list[str] | None:
    """Broadcast a dynamic value against a constant of ones: the importer does not support a constant shape for it."""
    dtype = build.graph.dtype(node.input[0])
    if not dtype or math.prod(shape.tolist()) > MAX_ONES:
        return None
    ones = build.const(np.ones(shape), build.graph.numpy_dtype(node.input[0]))
    return [build.op("And" if dtype == onnx.TensorProto.BOOL else "Mul", node.input[0], ones)]


MAX_ONES = 1 << 20


def tile(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    shape, result = build.graph.static_shape(node.input[0]), declared(node, build)
    if not is_dynamic(node, build, 1) or shape is None or result is None or 0 in shape:
        return None
    if len(shape) != len(result) or any(new % old for new, old in zip(result, shape, strict=True)):
        return None
    return [build.op("Tile", node.input[0], build.ints([new // old for new, old in zip(result, shape, strict=True)]))]


def squeeze(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace Squeeze and Unsqueeze between fixed shapes by reshapes.

    ONNX's function for AffineGrid passes a scalar axis; the importer needs a list.
    """
    axes = build.graph.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if axes is not None and axes.ndim == 0:
        return [build.op(node.op_type, node.input[0], build.ints([int(axes)]))]
    shape, result = build.graph.static_shape(node.input[0]), declared(node, build)
    if not is_dynamic(node, build, 1) or shape is None or result is None or 0 in result:
        return None
    if math.prod(shape) != math.prod(result):
        return None
    return [build.reshape(node.input[0], result)]


def top_k(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Take the count from the declared shape. An unsorted TopK, which the importer refuses, becomes a sorted one."""
    values = attributes(node)
    is_unsorted = values.pop("sorted", 1) == 0
    result = declared(node, build)
    if not is_dynamic(node, build, 1) or result is None:
        return build.ops("TopK", 2, *node.input, **values) if is_unsorted else None
    count = build.ints([result[values.get("axis", -1)]])
    return build.ops("TopK", 2, node.input[0], count, **values)


def split(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Take the sizes from the declared shapes; slice if a size is 0, which TVM cannot split. One part is the whole tensor."""
    if len(node.output) == 1:
        return [node.input[0]]  # TVM's operator would not return a tuple
    axis = attributes(node).get("axis", 0)
    if is_dynamic(node, build, 1):
        shapes = [declared(node, build, index) for index in range(len(node.output))]
        if any(shape is None for shape in shapes):
            return None
        sizes = [shape[axis] for shape in shapes if shape is not None]
        whole = build.graph.shape(node.input[0])
        if whole is not None and isinstance(whole[axis], int) and sum(sizes) != whole[axis]:
            return None
    else:
        constant = build.graph.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        sizes = [] if constant is None else constant.tolist()
        if 0 not in sizes:
            return None
    if 0 not in sizes:
        return build.ops("Split", len(sizes), node.input[0], build.ints(sizes), axis=axis)
    ends = list(itertools.accumulate(sizes))
    return [build.slice(node.input[0], axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def one_hot(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Compare the indices with 0 … depth - 1, which also supports negative indices and run-time values."""
    values = attributes(node)
    indices, depth, pair = node.input
    known, result = build.graph.constant(depth), declared(node, build)
    rank = build.graph.rank(indices)
    if rank is None or (known is None and result is None):
        return None
    axis = values.get("axis", -1)
    axis += rank + 1 if axis < 0 else 0
    count = int(known.reshape(-1)[0]) if known is not None else result[axis]  # type: ignore[index]
    integer = onnx.TensorProto.INT64
    index = build.unsqueeze(build.cast(indices, integer), [axis])
    wrapped = build.op(
        "Where",
        build.op("Less", index, build.const(0, np.int64)),
        build.op("Add", index, build.const(count, np.int64)),
        index,
    )
    steps = build.const(np.arange(count).reshape([count if at == axis else 1 for at in range(rank + 1)]), np.int64)
    off, on = (build.reshape(build.slice(pair, 0, start, start + 1), []) for start in (0, 1))
    return [build.op("Where", build.op("Equal", wrapped, steps), on, off)]


def constant_of_shape(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    result = declared(node, build)
    if not is_dynamic(node, build, 0) or result is None:
        return None
    return [build.op("ConstantOfShape", build.ints(result), **attributes(node))]


RULES = {
    **dict.fromkeys(sorted(REDUCTIONS), reduce),
    "Reshape": reshape,
    "Expand": expand,
    "Tile": tile,
    "Squeeze": squeeze,
    "Unsqueeze": squeeze,
    "TopK": top_k,
    "Split": split,
    "OneHot": one_hot,
    "ConstantOfShape": constant_of_shape,
}
