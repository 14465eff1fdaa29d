"""Converters for slices with dynamic bounds and for dynamic indices: ``table[past : past + n]``, ``x[:, n - 1 :] = y``, ``x[:, n - 1]``.

The result has the shape that PyTorch derived. Repair: `torch-slice-bounds`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import SymInt, fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.frontend.lowering.dimension_values import whole_number

from tvm import relax, tirx  # isort: skip


class _Range(NamedTuple):
    """The bounds of a slice as Relax expressions, and whether they are those of the axis."""

    axis: int
    begin: Any
    end: Any
    is_first: bool
    is_last: bool


def _slice(node: fx.Node, importer: Any) -> Any:
    bounds = _range(node.args[0], node.args[1:], node, importer)
    if bounds is None:
        if len(node.args) > 1:  # TVM accepts negative axes for fixed dimensions only
            node.update_arg(1, node.args[1] % len(importer.env[node.args[0]].ty.shape))
        return importer.create_convert_map()["slice.Tensor"](node)
    return importer.block_builder.emit(_slice_axis(importer.env[node.args[0]], bounds.axis, bounds.begin, bounds.end))


def write_slice(node: fx.Node, importer: Any) -> Any | None:
    """Replace a slice with dynamic bounds by another tensor; None for other slices."""
    data, source = node.args[:2]
    bounds = _range(data, node.args[2:], source, importer)
    if bounds is None:
        return None
    emit, target, axis = importer.block_builder.emit, importer.env[data], bounds.axis
    before = [] if bounds.is_first else [emit(_slice_axis(target, axis, 0, bounds.begin))]
    behind = [] if bounds.is_last else [emit(_slice_axis(target, axis, bounds.end, target.ty.shape[axis]))]
    parts = [*before, importer.env[source], *behind]
    return emit(relax.op.concat(parts, axis)) if len(parts) > 1 else parts[0]


def _range(data: fx.Node, options: Sequence[Any], part: fx.Node, importer: Any) -> _Range | None:
    """The range of a slice; None if sizes are fixed, or the slice is not known to be within the axis.

    Args:
        data: the sliced tensor.
        options: the operator's axis, start, stop and stride.
        part: a tensor of the slice's size.
        importer: TVM's importer.
    """
    arguments = list(options)
    axis, start, stop, stride = arguments + [0, None, None, 1][len(arguments) :]
    extent, length = data.meta["val"].shape[axis], part.meta["val"].shape[axis]
    sizes = [_size(start), _size(stop), extent, length]
    if stride != 1 or not any(isinstance(size, SymInt) for size in sizes):
        return None
    dimension = importer.env[data].ty.shape[axis]
    first, begin = _normalize_bound(start or 0, extent, dimension, importer)
    last, end = (extent, dimension) if stop is None else _normalize_bound(stop, extent, dimension, importer)
    if not statically_known_true(first >= 0) or not statically_known_true(last - first == length):
        return None
    # PyTorch assumes here that a dimension is at least 2, regardless of the stated bounds.
    if isinstance(last, int) or not statically_known_true(last <= extent):
        _note_size(importer.block_builder, dimension, end)
    return _Range(axis, begin, end, statically_known_true(first == 0), last is extent)


def _slice_axis(data: Any, axis: int, begin: Any, end: Any) -> Any:
    return relax.op.strided_slice(data, [axis], [begin], [end], [1], assume_inbound=True)


def _note_size(builder: Any, dimension: Any, least: Any) -> None:
    """Note the assumption that a slice ends within a dimension."""
    builder.equal_sizes.append(EqualSizes(tirx.min(dimension, least), _int64(least), "slice"))


def _int64(size: Any) -> Any:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


def _select(node: fx.Node, importer: Any) -> Any:
    """Select at an index that is an expression of dynamic dimensions. Negative ones count from the end."""
    data, axis, index = node.args
    if not isinstance(index, fx.Node):
        return importer.create_convert_map()["select.int"](node)
    return importer.block_builder.emit(relax.op.take(importer.env[data], whole_number(importer.env[index]), axis))


def _size(bound: Any) -> Any:
    """A bound as an int or PyTorch's symbol."""
    return bound.meta["val"] if isinstance(bound, fx.Node) else bound


def _normalize_bound(bound: Any, extent: Any, dimension: Any, importer: Any) -> tuple[Any, Any]:
    """A bound counted from the start and clipped to the dimension, for PyTorch and for Relax."""
    size, value = _size(bound), importer.env[bound] if isinstance(bound, fx.Node) else bound
    if statically_known_true(size < 0):
        return size + extent, dimension + value
    return (extent, dimension) if statically_known_true(size >= extent) else (size, value)


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"slice.Tensor": _slice, "select.int": _select}
"""Converters by the operator's name."""
