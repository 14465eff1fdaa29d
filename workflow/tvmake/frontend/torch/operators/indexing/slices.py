"""Slices between dynamic dimensions, and elements at them: ``table[past : past + n]``, ``x[:, n - 1 :] = y``, ``x[:, n - 1]``.

The shape of the result is the one that PyTorch has derived. Repair: `torch-slice-bounds`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import SymInt, fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.frontend.lowering.dimension_values import whole_number

from tvm import relax, tirx  # isort: skip


class _Range(NamedTuple):
    """What a slice takes of an axis, in Relax's terms, and whether it begins and ends where the axis does."""

    axis: int
    begin: Any
    end: Any
    is_first: bool
    is_last: bool


def _slice(node: fx.Node, importer: Any) -> Any:
    taken = _range(node.args[0], node.args[1:], node, importer)
    if taken is None:
        if len(node.args) > 1:  # TVM counts axes from the end for fixed dimensions alone
            node.update_arg(1, node.args[1] % len(importer.env[node.args[0]].ty.shape))
        return importer.create_convert_map()["slice.Tensor"](node)
    return importer.block_builder.emit(_part(importer.env[node.args[0]], taken.axis, taken.begin, taken.end))


def write_slice(node: fx.Node, importer: Any) -> Any | None:
    """Another tensor in the place of a slice between dynamic dimensions; None where it is another kind of slice."""
    data, source = node.args[:2]
    taken = _range(data, node.args[2:], source, importer)
    if taken is None:
        return None
    emit, whole, axis = importer.block_builder.emit, importer.env[data], taken.axis
    before = [] if taken.is_first else [emit(_part(whole, axis, 0, taken.begin))]
    behind = [] if taken.is_last else [emit(_part(whole, axis, taken.end, whole.ty.shape[axis]))]
    parts = [*before, importer.env[source], *behind]
    return emit(relax.op.concat(parts, axis)) if len(parts) > 1 else parts[0]


def _range(data: fx.Node, options: Sequence[Any], part: fx.Node, importer: Any) -> _Range | None:
    """What an axis, a start, a stop and a stride mean; None where sizes are fixed, or the part is not known to be within the axis.

    Args:
        data: what is sliced.
        options: as the operator has them.
        part: what has the slice's size.
        importer: TVM's.
    """
    given = list(options)
    axis, start, stop, stride = given + [0, None, None, 1][len(given) :]
    extent, length = data.meta["val"].shape[axis], part.meta["val"].shape[axis]
    sizes = [_size(start), _size(stop), extent, length]
    if stride != 1 or not any(isinstance(size, SymInt) for size in sizes):
        return None
    dimension = importer.env[data].ty.shape[axis]
    first, begin = _from_front(start or 0, extent, dimension, importer)
    last, end = (extent, dimension) if stop is None else _from_front(stop, extent, dimension, importer)
    if not statically_known_true(first >= 0) or not statically_known_true(last - first == length):
        return None
    # PyTorch takes a dimension to be 2 or more here, whatever bounds the program states.
    if isinstance(last, int) or not statically_known_true(last <= extent):
        _note_size(importer.block_builder, dimension, end)
    return _Range(axis, begin, end, statically_known_true(first == 0), last is extent)


def _part(data: Any, axis: int, begin: Any, end: Any) -> Any:
    return relax.op.strided_slice(data, [axis], [begin], [end], [1], assume_inbound=True)


def _note_size(builder: Any, dimension: Any, least: Any) -> None:
    """Note that a slice is taken to end within a dimension."""
    builder.equal_sizes.append(EqualSizes(tirx.min(dimension, least), _int64(least), "slice"))


def _int64(size: Any) -> Any:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


def _select(node: fx.Node, importer: Any) -> Any:
    """An index that is an expression of dynamic dimensions, as a tensor; counted from the end where negative."""
    data, axis, index = node.args
    if not isinstance(index, fx.Node):
        return importer.create_convert_map()["select.int"](node)
    return importer.block_builder.emit(relax.op.take(importer.env[data], whole_number(importer.env[index]), axis))


def _size(bound: Any) -> Any:
    """A bound as PyTorch's int or symbol."""
    return bound.meta["val"] if isinstance(bound, fx.Node) else bound


def _from_front(bound: Any, extent: Any, dimension: Any, importer: Any) -> tuple[Any, Any]:
    """A bound counted from the front and at most the dimension, for PyTorch and for Relax."""
    size, value = _size(bound), importer.env[bound] if isinstance(bound, fx.Node) else bound
    if statically_known_true(size < 0):
        return size + extent, dimension + value
    return (extent, dimension) if statically_known_true(size >= extent) else (size, value)


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"slice.Tensor": _slice, "select.int": _select}
"""By the operator's name."""
