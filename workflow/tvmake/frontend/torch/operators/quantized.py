"""Quantised networks as PT2E writes them (``torch.ops.quantized_decomposed``): integers, their scales and their zero points.

They become Relax' ``quantize`` and ``dequantize``. What of the network is computed in integers is decided where all sources meet
(``tvmake.quantize``).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from tvmake.frontend.torch.constants import add_constant, computed, given_values, input_dependent
from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip

NAMESPACE = "quantized_decomposed"

SMALL = {torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16"}
"""Integers that Relax rounds to."""


def settle_scales(program: ExportedProgram) -> None:
    """Give scales and zero points that are parameters the types that Relax has for them, in place: float32 and int32.

    Zero points that are no whole numbers, as embeddings have them, stay float32.
    """
    wanted = [node for node in program.graph.nodes if _is_quantised(node)]
    if not wanted:
        return
    dependent, values = input_dependent(program), given_values(program)
    made: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
    for node in wanted:
        for place, dtype in ((1, torch.float32), (2, torch.int32)):
            given = node.args[place]
            if not isinstance(given, fx.Node) or given in dependent:
                continue
            key = given, dtype
            if key not in made:
                value = computed(given, values).detach()
                kind = dtype if dtype.is_floating_point or torch.equal(value, value.round()) else torch.float32
                value, example = value.to(kind).contiguous(), given.meta["val"].to(kind)
                made[key] = add_constant(program, f"tvmake_settled_{len(made)}", value, example)
            node.update_arg(place, made[key])
    program.graph_module.recompile()


def _is_quantised(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != NAMESPACE:
        return False
    return target.__name__ in CONVERTERS


def _parameters(node: fx.Node, importer: Any, channels: bool) -> tuple[Any, Any]:
    """Scale in float32 and zero point in int32: scalars, or vectors."""
    emit, found = importer.block_builder.emit, []
    for given, dtype in ((node.args[1], "float32"), (node.args[2], "int32")):
        if not isinstance(given, fx.Node):
            # Only zero points of channels may be left out.
            length = int(node.args[1].meta["val"].shape[0]) if channels else 0
            found.append(relax.op.zeros((length,), dtype) if given is None else relax.const(given, dtype))
            continue
        value = importer.env[given]
        found.append(value if channels else emit(relax.op.reshape(value, ())))
    return found[0], found[1]


def _is_whole(zero: Any) -> bool:
    return not str(zero.ty.dtype).startswith("float")


def _quantize(channels: bool) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        emit, data = importer.block_builder.emit, importer.env[node.args[0]]
        *_, low, high, dtype = node.args
        kind = _integers(dtype)
        scale, zero = _parameters(node, importer, channels)
        axis = int(node.args[3]) if channels else 0
        if not _is_whole(zero):
            raise ValueError("rounds with zero points that are no whole numbers")  # the importer says where
        integers = emit(relax.op.quantize(data, scale, zero, axis, kind))
        bounds = torch.iinfo(dtype)
        if low <= bounds.min and high >= bounds.max:
            return integers
        return emit(relax.op.clip(integers, max(low, bounds.min), min(high, bounds.max)))

    return convert


def _integers(dtype: torch.dtype) -> str:
    if dtype not in SMALL:
        raise ValueError(f"rounds to {dtype}, which Relax does not")  # the importer says where
    return SMALL[dtype]


def _dequantize(channels: bool) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        scale, zero = _parameters(node, importer, channels)
        axis = int(node.args[3]) if channels else 0
        emit, integers = importer.block_builder.emit, importer.env[node.args[0]]
        if _is_whole(zero):
            real = emit(relax.op.dequantize(integers, scale, zero, axis, "float32"))
        else:
            along = [-1 if place == axis else 1 for place in range(integers.ty.ndim)] if channels else []
            zero, scale = (emit(relax.op.reshape(part, along)) for part in (zero, scale))
            shifted = emit(relax.op.subtract(emit(relax.op.astype(integers, "float32")), zero))
            real = emit(relax.op.multiply(shifted, scale))
        dtype = dtype_name(node)
        return real if dtype == "float32" else emit(relax.op.astype(real, dtype))

    return convert


def _chosen(node: fx.Node, importer: Any) -> Any:
    """Scale and zero point of a tensor by its extremes, as ``torch.ao.quantization.utils.determine_qparams`` finds them."""
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
    "choose_qparams.tensor": _chosen,
}
"""By the operator's name."""
