"""Properties of an expression of a graph or kernel: its operator, value, shape and dtype."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.storage.mapped.mapping import release

from tvm import relax  # isort: skip


def operator_name(value: Any) -> str:
    """Return the operator of a call, without Relax's prefix (``nn.conv2d``, ``tirx.exp``); ``""`` for other expressions."""
    is_operator = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
    return str(value.op.name).removeprefix("relax.") if is_operator else ""


def is_call(value: Any, *names: str) -> bool:
    """Whether an expression calls one of these operators, in the form of ``operator_name``."""
    return operator_name(value) in names


def bindings(function: Any) -> Iterator[Any]:
    """Yield the bindings of a Relax function; none if its body is a single expression."""
    if isinstance(function.body, relax.SeqExpr):
        for block in function.body.blocks:
            yield from block.bindings


def variables(value: Any) -> list[Any]:
    """Return the variables that an expression reads, also in tuples, in order."""
    match value:
        case relax.Var():
            return [value]
        case relax.Tuple():
            return [variable for field in value.fields for variable in variables(field)]
        case relax.TupleGetItem():
            return variables(value.tuple_value)
        case relax.Call():
            return [variable for argument in value.args for variable in variables(argument)]
        case _:
            return []


def with_values(value: Any, values: Mapping[Any, Any]) -> Any:
    """Substitute variables of an expression, also in tuples and calls."""
    match value:
        case relax.Var():
            return values.get(value, value)
        case relax.Tuple():
            return relax.Tuple([with_values(field, values) for field in value.fields])
        case relax.TupleGetItem():
            return relax.TupleGetItem(with_values(value.tuple_value, values), value.index)
        case relax.Call():
            arguments = [with_values(argument, values) for argument in value.args]
            return relax.Call(value.op, arguments, value.attrs, value.ty_args)
        case _:
            return value


def constant(value: Any) -> np.ndarray | None:
    """Return a copy of a constant's array, and release the memory of a mapped one; None for other expressions."""
    if isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType):
        array = np.asarray(value.value.numpy())
        release(value.value.data_ptr(), array.nbytes)
        return array
    return None


def fixed_shape(value: Any) -> list[int] | None:
    """Return the extents of a tensor if all of them are constant; None otherwise."""
    shape = getattr(value.ty, "shape", None)
    if shape is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        return None
    return [int(extent) for extent in shape]


def extents(value: Any) -> list[Any]:
    """Return the extents of a tensor, constant or symbolic; empty if its shape is unknown."""
    shape = getattr(value.ty, "shape", None)
    return [] if shape is None else list(shape)


def same_extents(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether constant and symbolic extents are provably equal."""
    return len(left) == len(right) and all(map(tvm_ffi.structural_equal, left, right))


def spreads_over(shape: Sequence[int], extents: Sequence[Any]) -> bool:
    """Whether an array of a shape broadcasts to a tensor's extents, constant or symbolic, without changing them."""
    last = zip(reversed(shape), reversed(extents), strict=False)
    return len(shape) <= len(extents) and all(
        length == 1 or (isinstance(extent, tvm.tirx.IntImm) and int(extent) == length) for length, extent in last
    )


def dtype_name(value: Any) -> str:
    """Return the dtype of a buffer, a tensor or a tensor type, such as ``float32``; TVM has it as text or as a type."""
    return str(getattr(value.dtype, "dtype", value.dtype))
