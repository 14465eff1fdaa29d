"""Offload operators to CLML, and report which layers it computes and which remain kernels."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.manifest import ClmlPart
from tvmake.ir.expressions import bindings, dtype_name, operator_name
from tvmake.targets.adreno_clml.calls import symbol_of
from tvmake.targets.adreno_clml.partition import Part, Partition, composites, partition
from tvmake.targets.adreno_clml.patterns import PREFIX, shape_of

from tvm import relax  # isort: skip

LOG = logging.getLogger(__name__)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Node(_Part):
    """One operator of a subgraph."""

    name: str
    operator: str
    inputs: list[str]
    attributes: dict[str, Any]
    shape: list[int | str] | None
    dtype: str | None


class Subgraph(_Part):
    """What one CLML call computes."""

    name: str
    pattern: str
    """TVM's name of the pattern (``bias.nn.conv2d``)."""
    part: str
    """The package's function that contains it."""
    inputs: list[str]
    nodes: list[Node]


class Layer(_Part):
    """One step of the network."""

    name: str
    operators: list[str]
    shape: list[int | str] | None
    offloaded_to: str | None = None
    """The subgraph that computes it; None for an OpenCL kernel."""


class Offload(_Part):
    """What CLML computes of a network."""

    is_compiled: bool
    """Whether the package has layers for CLML; False if CLML supports none."""
    reason: str | None = None
    offloaded: dict[str, int]
    """Number of operators of each kind that CLML computes."""
    fallback: dict[str, int]
    """Number of operators of each kind that remain OpenCL kernels."""
    layers: list[Layer]
    subgraphs: list[Subgraph]


@dataclass(frozen=True)
class Offloaded:
    """The part of a network that CLML computes."""

    report: Offload
    parts: list[ClmlPart]

    def files(self) -> dict[str, str]:
        """``clml/offload.json`` and one file per subgraph."""
        texts = {"clml/offload.json": self.report.model_dump_json(indent=2, exclude={"subgraphs"}) + "\n"}
        for subgraph in self.report.subgraphs:
            texts[f"clml/{subgraph.name}.json"] = subgraph.model_dump_json(indent=2) + "\n"
        return texts


def clml_offload(module: "tvm.IRModule", inputs: int, function: str = "") -> Offloaded:
    """Offload a transformed network's operators to CLML.

    Args:
        inputs: number of network inputs among ``main``'s arguments.
        function: the name of the package's function; empty if it has only one.
    """
    cut = partition(module, inputs)
    report = _report(cut, function)
    if report.is_compiled:
        LOG.info("CLML takes %d operators in %d parts", sum(report.offloaded.values()), len(cut.chosen))
    else:
        LOG.warning("the package runs all operators as OpenCL kernels: %s", report.reason)
    return Offloaded(
        report, [_part(symbol_of(index, function), part) for index, part in enumerate(cut.chosen.values())]
    )


def join_offloads(functions: Sequence[Offloaded]) -> Offloaded:
    """What CLML computes of a package's functions."""
    first, *others = functions
    if not others:
        return first
    reports = [function.report for function in functions]
    joined = Offload(
        is_compiled=any(report.is_compiled for report in reports),
        reason=next((report.reason for report in reports if report.reason), None),
        offloaded=dict(sum((Counter(report.offloaded) for report in reports), Counter())),
        fallback=dict(sum((Counter(report.fallback) for report in reports), Counter())),
        layers=[layer for report in reports for layer in report.layers],
        subgraphs=[subgraph for report in reports for subgraph in report.subgraphs],
    )
    return Offloaded(joined, [part for function in functions for part in function.parts])


def _report(cut: Partition, function: str) -> Offload:
    """Report a partition, layer by layer."""
    subgraphs: list[Subgraph] = []
    layers: list[Layer] = []
    symbols = {name: symbol_of(index, function) for index, name in enumerate(cut.chosen)}
    for binding in bindings(cut.module["main"]):
        call = binding.value
        if not isinstance(call, relax.Call):
            continue
        part = cut.parts.get(str(call.op.name_hint)) if isinstance(call.op, relax.GlobalVar) else None
        if part:
            symbol = symbols.get(str(call.op.name_hint))
            part_subgraphs = _subgraphs_of(part.function, len(subgraphs), symbol or "", function)
            subgraphs += [subgraph for _, subgraph in part_subgraphs] if symbol else []
            for name, subgraph in part_subgraphs:
                operators, shape = [node.operator for node in subgraph.nodes], subgraph.nodes[-1].shape
                layers.append(
                    Layer(name=name, operators=operators, shape=shape, offloaded_to=subgraph.name if symbol else None)
                )
        elif operator := operator_name(call):
            layers.append(Layer(name=str(binding.var.name), operators=[operator], shape=_tensor(binding.var.ty)[0]))
    offloaded: dict[str, int] = {}
    fallback: dict[str, int] = {}
    for layer in layers:
        counts = offloaded if layer.offloaded_to else fallback
        for operator in layer.operators:
            counts[operator] = counts.get(operator, 0) + 1
    is_open = bool(relax.analysis.defined_symbolic_vars(cut.module["main"]))
    why = (
        "the network has dynamic dimensions, which CLML does not take; fix them: `dims: {NAME: SIZE}`"
        if is_open
        else None
    )
    return Offload(
        is_compiled=bool(symbols),
        reason=None if symbols else why or "the network has no operator that CLML computes",
        offloaded=dict(sorted(offloaded.items())),
        fallback=dict(sorted(fallback.items())),
        layers=layers,
        subgraphs=subgraphs,
    )


def _part(symbol: str, part: Part) -> ClmlPart:
    weights = part.function.params[len(part.function.params) - len(part.weights) :]
    sizes = [
        int(np.prod(shape_of(weight), dtype=np.int64)) * np.dtype(dtype_name(weight.ty)).itemsize for weight in weights
    ]
    layers = [name.removeprefix(PREFIX) for name in composites(part.function)]
    return ClmlPart(name=symbol, layers=layers, weights=part.parameters, weight_bytes=sum(sizes))


def _subgraphs_of(function: Any, before: int, symbol: str, caller: str) -> list[tuple[str, Subgraph]]:
    """The composites of a function for CLML with the names of their results; two composites may be equal.

    Args:
        before: number of earlier subgraphs.
        symbol: the function's name in the package.
        caller: the name of the package's function; empty if it has only one.
    """
    matched = {
        binding.var: binding.value for binding in bindings(function) if isinstance(binding.value, relax.Function)
    }
    part_subgraphs: list[tuple[str, Subgraph]] = []
    for binding in bindings(function):
        call = binding.value
        if isinstance(call, relax.Call) and call.op in matched:
            composite = matched[call.op]
            subgraph = Subgraph(
                name="_".join(filter(None, (f"clml{before + len(part_subgraphs)}", caller))),
                pattern=str(composite.attrs["Composite"]).removeprefix(PREFIX),
                part=symbol,
                inputs=[_name_of(argument) for argument in call.args],
                nodes=[_node(inner) for inner in _operators(composite)],
            )
            part_subgraphs.append((str(binding.var.name), subgraph))
    return part_subgraphs


def _node(inner: Any) -> Node:
    call = inner.value
    shape, dtype = _tensor(inner.var.ty)
    return Node(
        name=str(inner.var.name),
        operator=operator_name(call),
        inputs=[_name_of(argument) for argument in call.args],
        attributes=_attributes(call.attrs),
        shape=shape,
        dtype=dtype,
    )


def _operators(function: Any) -> Iterator[Any]:
    for binding in bindings(function):
        if operator_name(binding.value):
            yield binding


def _name_of(value: Any) -> str:
    if isinstance(value, relax.Var):
        return str(value.name)
    return str(value) if isinstance(value, relax.ShapeExpr) else "constant"


def _attributes(attributes: Any) -> dict[str, Any]:
    if attributes is None:
        return {}
    names = [str(field.name) for field in type(attributes).__tvm_ffi_type_info__.fields]
    return {name: _plain(getattr(attributes, name)) for name in names}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tvm.tirx.IntImm):
        return int(value)
    return [_plain(part) for part in value] if hasattr(value, "__iter__") else str(value)


def _tensor(ty: Any) -> tuple[list[int | str] | None, str | None]:
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return None, None
    return [int(dim) if isinstance(dim, tvm.tirx.IntImm) else str(dim) for dim in ty.shape], str(ty.dtype)
