"""The operators that Qualcomm's CLML library can take over, and their subgraphs.

TVM partitions with patterns that are Python and in every TVM; what compiles the subgraphs (``relax.ext.openclml``) is
only in a TVM built with the CLML SDK, which the wheel is not. Without it the partition is reported and everything is
compiled to OpenCL kernels.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from pydantic import BaseModel, ConfigDict

from tvmake.targets.adreno.fresh_module import fresh

from tvm import relax  # isort: skip
from tvm.relax.backend.adreno import clml as patterns  # isort: skip

GENERATOR = "relax.ext.openclml"

KEY = "clml"
"""The target key that asks for it."""

LAYOUTS = {"relax.nn.conv2d": ["NCHW", "OIHW"], "relax.nn.conv2d_transpose": ["NCHW", "OIHW"]}

PREFIX = "openclml."
"""The beginning of all names of patterns."""


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
    """TVM's name for what was matched (``bias.nn.conv2d``)."""
    inputs: list[str]
    nodes: list[Node]


class Layer(_Part):
    """One step of the network."""

    name: str
    operators: list[str]
    shape: list[int | str] | None
    offloaded_to: str | None = None
    """The subgraph that computes it; None for what stays an OpenCL kernel."""


class Offload(_Part):
    """What CLML can take over of a network."""

    is_compiled: bool
    """Whether the package runs CLML; False where this TVM cannot generate code for it."""
    reason: str | None = None
    offloaded: dict[str, int]
    """How many operators of each kind CLML takes."""
    fallback: dict[str, int]
    """How many stay OpenCL kernels."""
    layers: list[Layer]
    subgraphs: list[Subgraph]


def can_compile() -> bool:
    """Whether this TVM generates code for CLML."""
    return tvm_ffi.get_global_func(GENERATOR, allow_missing=True) is not None


def partition(module: "tvm.IRModule", params: Mapping[str, Any]) -> "tvm.IRModule":
    """The network with its CLML parts as functions of their own, not compiled yet.

    Args:
        params: the model's parameters, which CLML wants as constants.
    """
    passes = relax.transform
    return tvm.transform.Sequential(
        [
            passes.BindParams("main", dict(params)),
            passes.ConvertLayout(LAYOUTS),
            passes.Normalize(),
            passes.FoldBatchnormToConv2D(),
            patterns.AppendReshapeToBNRewriterPass(),
            passes.FoldConstant(),
            passes.FuseOpsByPattern(patterns.clml_pattern_table()),
            passes.MergeCompositeFunctions(),
        ]
    )(fresh(module))


def compiled(partitioned: "tvm.IRModule") -> "tvm.IRModule":
    """The network calling compiled CLML subgraphs; for a TVM that has the generator."""
    return relax.transform.RunCodegen()(partitioned)


def offload(partitioned: "tvm.IRModule") -> Offload:
    """What a partition gives to CLML, layer by layer."""
    subgraphs: list[Subgraph] = []
    layers: list[Layer] = []
    main = partitioned["main"]
    for binding in _bindings(main):
        call = binding.value
        if not isinstance(call, relax.Call):
            continue
        shape, _ = _tensor(binding.var.ty)
        if isinstance(call.op, relax.GlobalVar):
            found = _subgraphs_of(partitioned[call.op], len(subgraphs))
            subgraphs += [part for _, part in found]
            for name, part in found:
                operators = [node.operator for node in part.nodes]
                layers.append(Layer(name=name, operators=operators, shape=part.nodes[-1].shape, offloaded_to=part.name))
        elif isinstance(call.op, tvm.ir.Op):
            layers.append(Layer(name=str(binding.var.name), operators=[_operator(call)], shape=shape))
    taken: dict[str, int] = {}
    left: dict[str, int] = {}
    for layer in layers:
        counts = taken if layer.offloaded_to else left
        for operator in layer.operators:
            counts[operator] = counts.get(operator, 0) + 1
    can = can_compile()
    return Offload(
        is_compiled=can,
        reason=None if can else f"this TVM has no code generator for CLML ({GENERATOR}); build TVM with the CLML SDK",
        offloaded=dict(sorted(taken.items())),
        fallback=dict(sorted(left.items())),
        layers=layers,
        subgraphs=subgraphs,
    )


def _subgraphs_of(function: Any, before: int) -> list[tuple[str, Subgraph]]:
    """The composites inside a function for CLML, which calls them one after the other, with the results' names: some are equal.

    Args:
        before: how many subgraphs there are already.
    """
    composites = {
        binding.var: binding.value
        for binding in _bindings(function)
        if isinstance(binding.value, relax.Function) and "Composite" in binding.value.attrs
    }
    found: list[tuple[str, Subgraph]] = []
    for binding in _bindings(function):
        call = binding.value
        if isinstance(call, relax.Call) and call.op in composites:
            composite = composites[call.op]
            part = Subgraph(
                name=f"clml{before + len(found)}",
                pattern=str(composite.attrs["Composite"]).removeprefix(PREFIX),
                inputs=[_named(argument) for argument in call.args],
                nodes=[_node(inner) for inner in _operators(composite)],
            )
            found.append((str(binding.var.name), part))
    return found


def _node(inner: Any) -> Node:
    call = inner.value
    shape, dtype = _tensor(inner.var.ty)
    return Node(
        name=str(inner.var.name),
        operator=_operator(call),
        inputs=[_named(argument) for argument in call.args],
        attributes=_attributes(call.attrs),
        shape=shape,
        dtype=dtype,
    )


def _operators(function: Any) -> Iterator[Any]:
    for binding in _bindings(function):
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op):
            yield binding


def _bindings(function: Any) -> Iterator[Any]:
    if not isinstance(function.body, relax.SeqExpr):
        return
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding, relax.VarBinding):
                yield binding


def _operator(call: Any) -> str:
    return str(call.op.name).removeprefix("relax.")


def _named(value: Any) -> str:
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
