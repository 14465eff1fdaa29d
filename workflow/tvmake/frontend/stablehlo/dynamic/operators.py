"""Convert operators that take shapes, widths and strides as operands."""

from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    extents,
    integers,
    known_sizes,
)
from tvmake.frontend.stablehlo.gather import gather_windows
from tvmake.frontend.stablehlo.reductions import combining_operator, reduce_windows
from tvmake.frontend.stablehlo.shapes import expand_axes, object_array, pad_value, slice_from, slice_value
from tvmake.frontend.stablehlo.sizes.arithmetic import as_sizes, is_symbolic
from tvmake.frontend.stablehlo.source import tensor_type

from tvm import relax  # isort: skip


def _dimension_size(_conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return as_sizes(object_array(extents(values[0])[op.dimension.value]), "int32")


def _broadcast(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    shape = known_sizes(values[1])
    value = expand_axes(conversion, values[0], len(shape), integers(op, "broadcast_dimensions"))
    if isinstance(value, np.ndarray) and all(isinstance(size, int) for size in shape):
        return np.broadcast_to(value, shape)
    value = conversion.whole(value) if is_symbolic(value) else value
    return _with_shape(conversion, conversion.thin(value), shape)


def _with_shape(conversion: Conversion, value: Any, shape: list[Any]) -> Any:
    value = value if isinstance(value, relax.Var) else conversion.emit(value)
    return value if conversion.sizes.have_same_shape(extents(value), shape) else conversion.broadcast(value, shape)


def _reshape(conversion: Conversion, _op: Any, values: list[Value]) -> Any:
    return conversion.reshape(values[0], known_sizes(values[1]))


def _iota(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    shape, axis = known_sizes(values[0]), op.iota_dimension.value
    result_type = tensor_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"of the type {op.results[0].type}")
    thin = [size if a == axis else 1 for a, size in enumerate(shape)]
    if all(isinstance(size, int) for size in shape):
        return np.broadcast_to(np.arange(shape[axis]).astype(result_type[1]).reshape(thin), shape)
    line: Any = conversion.indices(shape[axis], "int64")
    if result_type[1] != "int64":
        line = conversion.emit(relax.op.astype(line, result_type[1]))
    result = _with_shape(conversion, conversion.whole(conversion.reshape(line, thin)), shape)
    conversion.iota_axes[result] = axis
    return result


def _slice(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    operand, starts, limits, strides = values
    steps = known_sizes(strides)
    if not all(isinstance(step, int) for step in steps):
        raise Unsupported("with a stride that depends on dimensions")
    if isinstance(starts, np.ndarray) and isinstance(limits, np.ndarray):
        begins, ends = known_sizes(starts), known_sizes(limits)
        if not any(map(conversion.sizes.has_counter, begins)):
            return slice_value(conversion, operand, begins, ends, steps)
        sizes = [conversion.sizes.simplify(end - begin) for begin, end in zip(begins, ends, strict=True)]
    else:
        sizes = known_sizes(_added_sizes(conversion, op))
    if any(step != 1 for step in steps):
        raise Unsupported("with a start that depends on data, and a stride")
    return slice_from(conversion, operand, _scalars(conversion, starts), sizes)


def _added_sizes(conversion: Conversion, op: Any) -> Value:
    """The sizes of a slice whose limits are its starts plus its sizes, as jax writes them."""
    start, limit = op.operands[1], op.operands[2]
    owner: Any = getattr(limit, "owner", None)
    if getattr(owner, "name", "") == "stablehlo.add" and start in list(owner.operands):
        [size] = [operand for operand in owner.operands if operand != start]
        return conversion.scope[size]
    raise Unsupported("of a size that depends on data")


def _scalars(conversion: Conversion, vector: Value) -> list[Value]:
    """The elements of a vector."""
    [count] = extents(vector)
    if isinstance(vector, np.ndarray):
        return [vector[index : index + 1].reshape(()) for index in range(count)]
    return [conversion.reshape(slice_value(conversion, vector, [index], [index + 1]), []) for index in range(count)]


def _pad(conversion: Conversion, _op: Any, values: list[Value]) -> Any:
    operand, filling, *widths = values
    low, high, between = map(known_sizes, widths)
    if not isinstance(filling, np.ndarray):
        raise Unsupported("with a value that depends on data")
    if not all(isinstance(gap, int) for gap in between):
        raise Unsupported("between elements, by a width that depends on dimensions")
    return pad_value(conversion, operand, low, high, between, filling.item())


def _gather(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return gather_windows(conversion, op, values[:2], known_sizes(values[2]))


def _reduce_window(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    *arrays, window, strides, base, dilations, padding = values
    if len(arrays) != 2:
        raise Unsupported(f"of {len(arrays) // 2} arrays at once")
    [body] = op.attributes["called_computations"]
    name = combining_operator(conversion.program.functions[body.value])
    if name is None:
        raise Unsupported("that combines elements by several operators")
    sizes = [known_sizes(value) for value in (window, strides, dilations, base, padding)]
    if not all(isinstance(size, int) for size in (*sizes[1], *sizes[2], *sizes[3])):
        raise Unsupported("with strides that depend on dimensions")
    return reduce_windows(conversion, name, arrays, sizes)


CONVERTERS: dict[str, Converter] = {
    "custom_call @stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.real_dynamic_slice": _slice,
}
