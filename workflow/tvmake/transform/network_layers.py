"""The layers of a float network whose precision can be chosen: convolutions and matmuls, with their predecessors."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import fixed_shape, is_call, operator_name, variables
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.integers.products import OTHER_PRODUCTS, PRODUCTS
from tvmake.quantize.precision import LayerPrecision

from tvm import relax  # isort: skip

LAYERS = (*PRODUCTS, *OTHER_PRODUCTS)

INFER = "FInferMixedPrecision"
"""Attribute of operators that TVM can compute in float16."""

MOST_SOURCES = 2
"""Maximum number of predecessors, the nearest ones; in a residual network all earlier layers are predecessors."""


@dataclass(frozen=True)
class NetworkLayer:
    """A convolution or matmul, with the element-wise operators after it."""

    name: str
    """Variable of its result."""
    operator: str
    """Relax's name: ``nn.conv2d``."""
    precisions: tuple[LayerPrecision, ...]
    """Supported precisions, the most accurate first."""
    why_not: str
    """The reason for unsupported candidates; empty if all are supported."""
    elements: int
    """Number of elements of its result; 0 if unknown."""
    sources: tuple[int, ...]
    """Indices of the layers that its operands depend on."""


def is_layer(call: Any) -> bool:
    """Whether a call is a float32 layer."""
    return is_call(call, *LAYERS) and str(call.args[0].ty.dtype) == "float32" and str(call.ty.dtype) == "float32"


def network_layers(
    module: "tvm.IRModule", among: Sequence[LayerPrecision], never: Collection[str]
) -> list[NetworkLayer]:
    """Return the layers of ``main`` in the order of computation.

    Args:
        module: canonical, before its precision is changed (:func:`tvmake.transform.graph.float_network`).
        among: candidate precisions, the most accurate first.
        never: operators that stay in the first candidate.
    """
    excluded = {name.removeprefix("relax.") for name in never}
    sites = find_sites(module, never)
    reasons = {name: reason for _, name, reason in sites.kept}
    origins: dict[Any, frozenset[int]] = {}
    layers: list[NetworkLayer] = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                continue
            call = binding.value
            read = frozenset().union(*(origins.get(variable, frozenset()) for variable in variables(call)))
            nearest = frozenset(sorted(read)[-MOST_SOURCES:])
            if not is_layer(call):
                origins[binding.var] = nearest
                continue
            operator, name = operator_name(call), str(binding.var.name)
            able, why_not = list(among), ""
            if operator in excluded:
                able, why_not = [among[0]], "it is named under never"
            else:
                if "int8" in able and not any(binding.var.same_as(result) for result in sites.results):
                    able.remove("int8")
                    why_not = f"int8: {reasons.get(name, 'it has no integer form')}"
                if call.op.get_attr(INFER) is None:
                    able = [precision for precision in able if not precision.startswith("float16")]
                    why_not = "; ".join(part for part in (why_not, "float16: TVM cannot compute it so") if part)
            extents = fixed_shape(call)
            layers.append(
                NetworkLayer(
                    name=name,
                    operator=operator,
                    precisions=tuple(able) or (among[0],),
                    why_not=why_not,
                    elements=int(np.prod(extents, dtype=np.int64)) if extents is not None else 0,
                    sources=tuple(sorted(nearest)),
                )
            )
            origins[binding.var] = frozenset({len(layers) - 1})
    return layers
