"""Convert sorts by one or several arrays, and top-k."""

from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    direction,
    extents,
    is_iota,
)

from tvm import relax  # isort: skip


def _sort(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """Sort a single array directly; gather several arrays by the keys' order, sorting by the last key first."""
    axis, keys = op.dimension.value % len(extents(values[0])), _keys(op)
    arrays = [_sortable(conversion, conversion.whole(value)) for value in values]
    if len(arrays) == 1:
        result = conversion.emit(relax.op.sort(arrays[0], axis, descending=keys[0][1]))
        dtype = str(conversion.whole(values[0]).ty.dtype)
        return result if str(result.ty.dtype) == dtype else relax.op.astype(result, dtype)
    indices = None
    for number, is_descending in reversed(keys):
        key = (
            arrays[number]
            if indices is None
            else conversion.emit(relax.op.gather_elements(arrays[number], indices, axis))
        )
        order = conversion.emit(relax.op.argsort(key, axis, descending=is_descending, dtype="int32"))
        indices = order if indices is None else conversion.emit(relax.op.gather_elements(indices, order, axis))
    return [_gather(conversion, value, indices, axis) for value in values]


SORTED_AS = {"bool": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}
"""Sortable dtypes for dtypes that TVM does not sort."""


def _sortable(conversion: Conversion, value: Any) -> Any:
    wide = SORTED_AS.get(str(value.ty.dtype))
    return conversion.emit(relax.op.astype(value, wide)) if wide else value


def _gather(conversion: Conversion, value: Value, indices: Any, axis: int) -> Any:
    if is_iota(conversion, value, axis):
        dtype = str(value.dtype) if isinstance(value, np.ndarray) else str(value.ty.dtype)
        return indices if dtype == "int32" else conversion.emit(relax.op.astype(indices, dtype))
    return conversion.emit(relax.op.gather_elements(conversion.whole(value), indices, axis))


def _keys(op: Any) -> list[tuple[int, bool]]:
    """The indices of the key arrays, most significant first, and whether their order is descending."""
    block = op.regions[0].blocks[0]
    *_, last = block.operations
    return _order(last.operands[0], list(block.arguments))


def _order(value: Any, arguments: list[Any]) -> list[tuple[int, bool]]:
    """Match ``a < b``, or ``a < b or (a == b and …)``, as jax writes it; the arguments are pairs of elements of each array."""
    name = _name(value)
    if name == "stablehlo.compare" and direction(value.owner.opview) in ("LT", "GT"):
        return [(_array(value, arguments), direction(value.owner.opview) == "GT")]
    if name == "stablehlo.or":
        first, rest = value.owner.operands
        if _name(rest) == "stablehlo.and":
            equal, following = rest.owner.operands
            keys = _order(first, arguments)
            is_equality = _name(equal) == "stablehlo.compare" and direction(equal.owner.opview) == "EQ"
            if is_equality and len(keys) == 1 and _array(equal, arguments) == keys[0][0]:
                return [*keys, *_order(following, arguments)]
    raise Unsupported("by anything but the order of one array, or of several one after the other")


def _array(comparison: Any, arguments: list[Any]) -> int:
    """The index of the array whose elements are compared."""
    left, right = (_element(operand, arguments) for operand in comparison.owner.operands)
    if left % 2 or right != left + 1:
        raise Unsupported("that compares elements of different arrays")
    return left // 2


def _element(value: Any, arguments: list[Any]) -> int:
    """The index of a value among the arguments; before comparing, jax replaces -0 by 0 and every NaN by one NaN."""
    while _name(value) == "stablehlo.select":
        value = value.owner.operands[2]
    for number, argument in enumerate(arguments):
        if argument == value:
            return number
    raise Unsupported("by values that are computed from the elements")


def _name(value: Any) -> str:
    return getattr(value.owner, "name", "") if not hasattr(value, "arg_number") else ""


def _top_k(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    k = op.composite_attributes["k"].value if "composite_attributes" in op.attributes else op.attributes["k"].value
    value = conversion.whole(values[0])
    result = conversion.emit(relax.op.topk(value, k, axis=-1, ret_type="both", largest=True, dtype="int32"))
    return [conversion.emit(relax.TupleGetItem(result, 0)), conversion.emit(relax.TupleGetItem(result, 1))]


CONVERTERS: dict[str, Converter] = {"stablehlo.sort": _sort, "chlo.top_k": _top_k}
