"""Convert PT2E's quantised operators (``torch.ops.quantized_decomposed``) to Relax' ``quantize`` and ``dequantize``.

``tvmake.quantize`` decides for all sources which parts of a network compute in integers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from tvmake.frontend.torch.constants import add_constant, constant_values, evaluate, input_dependent_nodes
from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip

NAMESPACE = "quantized_decomposed"

INTEGER_TYPES = {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16"}
"""Integer types of Relax' ``quantize``."""


def convert_scale_dtypes(program: ExportedProgram) -> None:
    """Convert constant scales to float32 and constant zero points to int32, in place, as Relax requires.

    Zero points that are not integers, as those of embeddings, become float32.
    """
    nodes = [node for node in program.graph.nodes if _is_quantised(node)]
    if not nodes:
        return
    dependent, values = input_dependent_nodes(program), constant_values(program)
    converted: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
    for node in nodes:
        for position, dtype in ((1, torch.float32), (2, torch.int32)):
            parameter = node.args[position]
            if not isinstance(parameter, fx.Node) or parameter in dependent:
                continue
            key = parameter, dtype
            if key not in converted:
                value = evaluate(parameter, values).detach()
                kind = dtype if dtype.is_floating_point or torch.equal(value, value.round()) else torch.float32
                value, example = value.to(kind).contiguous(), parameter.meta["val"].to(kind)
                converted[key] = add_constant(program, f"tvmake_settled_{len(converted)}", value, example)
            node.update_arg(position, converted[key])
    program.graph_module.recompile()


def _is_quantised(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != NAMESPACE:
        return False
    return target.__name__ in CONVERTERS


def _parameters(node: fx.Node, importer: Any, channels: bool) -> tuple[Any, Any]:
    """The scale in float32 and the zero point in int32: scalars, or vectors for channels."""
    emit, parameters = importer.block_builder.emit, []
    for argument, dtype in ((node.args[1], "float32"), (node.args[2], "int32")):
        if not isinstance(argument, fx.Node):
            # Only zero points of channels may be absent.
            length = int(node.args[1].meta["val"].shape[0]) if channels else 0
            parameters.append(relax.op.zeros((length,), dtype) if argument is None else relax.const(argument, dtype))
            continue
        value = importer.env[argument]
        parameters.append(value if channels else emit(relax.op.reshape(value, ())))
    return parameters[0], parameters[1]


def _is_integer(zero: Any) -> bool:
    return not str(zero.ty.dtype).startswith("float")


def _quantize(channels: bool) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        emit, data = importer.block_builder.emit, importer.env[node.args[0]]
        *_, low, high, dtype = node.args
        kind = _integer_type(dtype)
        scale, zero = _parameters(node, importer, channels)
        axis = int(node.args[3]) if channels else 0
        if not _is_integer(zero):
            raise ValueError("quantises with zero points that are not integers")  # the importer adds the source
        integers = emit(relax.op.quantize(data, scale, zero, axis, kind))
        bounds = torch.iinfo(dtype)
        if low <= bounds.min and high >= bounds.max:
            return integers
        return emit(relax.op.clip(integers, max(low, bounds.min), min(high, bounds.max)))

    return convert


def _integer_type(dtype: torch.dtype) -> str:
    if dtype not in INTEGER_TYPES:
        raise ValueError(f"quantises to {dtype}, which Relax does not support")  # the importer adds the source
    return INTEGER_TYPES[dtype]


def _dequantize(channels: bool) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        scale, zero = _parameters(node, importer, channels)
        axis = int(node.args[3]) if channels else 0
        emit, integers = importer.block_builder.emit, importer.env[node.args[0]]
        if _is_integer(zero):
            real = emit(relax.op.dequantize(integers, scale, zero, axis, "float32"))
        else:
            shape = [-1 if index == axis else 1 for index in range(integers.ty.ndim)] if channels else []
            zero, scale = (emit(relax.op.reshape(parameter, shape)) for parameter in (zero, scale))
            shifted = emit(relax.op.subtract(emit(relax.op.astype(integers, "float32")), zero))
            real = emit(relax.op.multiply(shifted, scale))
        dtype = dtype_name(node)
        return real if dtype == "float32" else emit(relax.op.astype(real, dtype))

    return convert


def _choose_parameters(node: fx.Node, importer: Any) -> Any:
    """The scale and zero point for a tensor's range, as in ``torch.ao.quantization.utils.determine_qparams``."""
    data: Any = importer.env[node.args[0]]
    low, high, smallest = (float(value) for value in node.args[1:4])
    op, emit = relax.op, importer.block_builder.emit

    def const(value: float) -> Any:
        return relax.const(float(value), "float32")

    lowest = emit(op.minimum(op.min(data), const(0)))
    highest = emit(op.maximum(op.max(data), const(0)))
    scale = emit(op.maximum(op.divide(op.subtract(highest, lowest), const(high - low)), const(smallest)))
    zero = emit(op.subtract(const(low), op.round(op.divide(lowest, scale))))
    zero = emit(op.astype(op.minimum(op.maximum(zero, const(low)), const(high)), "int32"))
    return emit(relax.Tuple([emit(op.reshape(scale, (1,))), emit(op.reshape(zero, (1,)))]))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "quantize_per_tensor.default": _quantize(channels=False),
    "quantize_per_tensor.tensor": _quantize(channels=False),
    "quantize_per_channel.default": _quantize(channels=True),
    "dequantize_per_tensor.default": _dequantize(channels=False),
    "dequantize_per_tensor.tensor": _dequantize(channels=False),
    "dequantize_per_channel.default": _dequantize(channels=True),
    "choose_qparams.tensor": _choose_parameters,
}
"""Converters by the operator's name."""
