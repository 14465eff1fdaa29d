"""The kernels of a lowered module, and the graph that calls them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import tvm

from tvmake.artifact.manifest import GraphNode, Kernel
from tvmake.ir.expressions import bindings, operator_name
from tvmake.storage.files import digest_bytes


def kernels(fused: "tvm.IRModule", tuned: Mapping[str, str], ruled: Collection[str]) -> list[Kernel]:
    """The tensor functions of a fused module, by name.

    Args:
        tuned: digests of the records that scheduled kernels.
    """
    calls = calls_of(fused)
    return [
        Kernel(
            name=str(name.name_hint),
            sha256=digest_bytes(tvm.ir.save_json(function).encode()),
            calls=calls[str(name.name_hint)],
            is_tuned=str(name.name_hint) in tuned,
            scheduled=_schedule_source(str(name.name_hint), tuned, ruled),
            record_sha256=tuned.get(str(name.name_hint)),
        )
        for name, function in sorted(fused.functions_items(), key=lambda item: str(item[0].name_hint))
        if isinstance(function, tvm.tirx.PrimFunc)
    ]


def _schedule_source(
    name: str, tuned: Mapping[str, str], ruled: Collection[str]
) -> Literal["record", "rule", "default"]:
    if name in tuned:
        return "record"
    return "rule" if name in ruled else "default"


def calls_of(fused: "tvm.IRModule") -> Counter[str]:
    """How often the functions of a module call each kernel."""
    functions = (function for _, function in fused.functions_items() if isinstance(function, tvm.relax.Function))
    return Counter(node.call for function in functions for node in _nodes(function))


def graph(fused: "tvm.IRModule", functions: Iterable[str]) -> list[GraphNode]:
    """The bindings of functions, in order."""
    return [node for name in functions for node in _nodes(fused[name])]


def _nodes(function: "tvm.relax.Function") -> list[GraphNode]:
    relax = tvm.relax
    nodes: list[GraphNode] = []
    for binding in bindings(function):
        value = binding.value if isinstance(binding, relax.VarBinding) else None
        if isinstance(value, relax.Call):
            call, arguments = _call_target(value)
        else:
            call, arguments = type(value).__name__.lower(), [value] if value is not None else []
        shape, dtype = _shape(binding.var.ty)
        nodes.append(
            GraphNode(name=str(binding.var.name), call=call, inputs=_names(arguments), shape=shape, dtype=dtype)
        )
    return nodes


def _call_target(call: "tvm.relax.Call") -> tuple[str, list]:
    if operator_name(call).startswith("call_tir"):
        return str(call.args[0].name_hint), list(call.args[1].fields)
    if isinstance(call.op, tvm.ir.Op):
        return str(call.op.name), list(call.args)
    return str(getattr(call.op, "name_hint", call.op)), list(call.args)


def _names(values: list) -> list[str]:
    names: list[str] = []
    for value in values:
        if isinstance(value, tvm.relax.Tuple):
            names += _names(list(value.fields))
        elif isinstance(value, tvm.relax.TupleGetItem):
            names.append(f"{value.tuple_value.name}[{value.index}]")
        else:
            names.append(str(value.name) if isinstance(value, tvm.ir.Var) else type(value).__name__.lower())
    return names


def _shape(ty) -> tuple[list[int | str] | None, str | None]:
    if not isinstance(ty, tvm.relax.TensorType) or ty.shape is None:
        return None, None
    return [int(dim) if isinstance(dim, tvm.tirx.IntImm) else str(dim) for dim in ty.shape], str(ty.dtype)
