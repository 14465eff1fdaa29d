"""Sort by one array or by several, and top-k."""

from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, numbered
from tvmake.frontend.stablehlo.elementwise import direction

from tvm import relax  # isort: skip


def _sort(at: Conversion, op: Any, values: list[Value]) -> Any:
    """By an array's own order where it is alone; else all arrays go to the places that the keys give, from the last key to the first."""
    axis, keys = op.dimension.value % len(extents(values[0])), _keys(op)
    arrays = [_sortable(at, at.whole(value)) for value in values]
    if len(arrays) == 1:
        found, dtype = at.emit(relax.op.sort(arrays[0], axis, descending=keys[0][1])), str(at.whole(values[0]).ty.dtype)
        return found if str(found.ty.dtype) == dtype else relax.op.astype(found, dtype)
    places = None
    for number, is_descending in reversed(keys):
        key = arrays[number] if places is None else at.emit(relax.op.gather_elements(arrays[number], places, axis))
        order = at.emit(relax.op.argsort(key, axis, descending=is_descending, dtype="int32"))
        places = order if places is None else at.emit(relax.op.gather_elements(places, order, axis))
    return [_moved(at, value, places, axis) for value in values]


SORTED_AS = {"bool": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}
"""What types that TVM does not sort are sorted as."""


def _sortable(at: Conversion, value: Any) -> Any:
    wide = SORTED_AS.get(str(value.ty.dtype))
    return at.emit(relax.op.astype(value, wide)) if wide else value


def _moved(at: Conversion, value: Value, places: Any, axis: int) -> Any:
    if isinstance(value, np.ndarray) and np.array_equal(
        value, np.broadcast_to(numbered(value.shape, axis), value.shape)
    ):
        return places if str(value.dtype) == "int32" else at.emit(relax.op.astype(places, str(value.dtype)))
    return at.emit(relax.op.gather_elements(at.whole(value), places, axis))


def _keys(op: Any) -> list[tuple[int, bool]]:
    """Which arrays decide, the first one first, and whether from the largest on."""
    block = op.regions[0].blocks[0]
    *_, last = block.operations
    return _order(last.operands[0], list(block.arguments))


def _order(value: Any, arguments: list[Any]) -> list[tuple[int, bool]]:
    """``a < b``, or ``a < b or (a == b and …)``, as jax writes it; the arguments are pairs of elements of each array."""
    name = _name(value)
    if name == "stablehlo.compare" and direction(value.owner.opview) in ("LT", "GT"):
        return [(_array(value, arguments), direction(value.owner.opview) == "GT")]
    if name == "stablehlo.or":
        first, rest = value.owner.operands
        if _name(rest) == "stablehlo.and":
            equal, following = rest.owner.operands
            found = _order(first, arguments)
            is_equality = _name(equal) == "stablehlo.compare" and direction(equal.owner.opview) == "EQ"
            if is_equality and len(found) == 1 and _array(equal, arguments) == found[0][0]:
                return [*found, *_order(following, arguments)]
    raise Unsupported("by anything but the order of one array, or of several one after the other")


def _array(comparison: Any, arguments: list[Any]) -> int:
    """Whose elements are compared."""
    one, other = (_element(operand, arguments) for operand in comparison.owner.operands)
    if one % 2 or other != one + 1:
        raise Unsupported("that compares elements of different arrays")
    return one // 2


def _element(value: Any, arguments: list[Any]) -> int:
    """Which argument a value is; jax makes one of both zeros, and of all that is no number, before it compares them."""
    while _name(value) == "stablehlo.select":
        value = value.owner.operands[2]
    for number, argument in enumerate(arguments):
        if argument == value:
            return number
    raise Unsupported("by what is computed from the elements")


def _name(value: Any) -> str:
    return getattr(value.owner, "name", "") if not hasattr(value, "arg_number") else ""


def _top_k(at: Conversion, op: Any, values: list[Value]) -> Any:
    k = op.composite_attributes["k"].value if "composite_attributes" in op.attributes else op.attributes["k"].value
    value = at.whole(values[0])
    found = at.emit(relax.op.topk(value, k, axis=-1, ret_type="both", largest=True, dtype="int32"))
    return [at.emit(relax.TupleGetItem(found, 0)), at.emit(relax.TupleGetItem(found, 1))]


CONVERTERS: dict[str, Converter] = {"stablehlo.sort": _sort, "chlo.top_k": _top_k}
