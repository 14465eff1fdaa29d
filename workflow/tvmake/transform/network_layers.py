"""The layers of a float network whose precision can be chosen: convolutions and products, with what leads from one to the next."""

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
"""The attribute of operators that TVM can compute in float16."""

MOST_SOURCES = 2
"""Of the layers that a tensor comes from, how many of the nearest count: along a residual branch they are all before."""


@dataclass(frozen=True)
class NetworkLayer:
    """A convolution or product of matrices, with the element-wise work that follows it."""

    name: str
    """The variable that holds its result."""
    operator: str
    """As in Relax: ``nn.conv2d``."""
    precisions: tuple[LayerPrecision, ...]
    """What it can be computed in, the most accurate first."""
    why_not: str
    """Why it has fewer precisions than are chosen among; empty where it has all."""
    elements: int
    """Of its result; 0 where that is not known."""
    sources: tuple[int, ...]
    """The layers that its operands come from, by their place."""


def is_layer(call: Any) -> bool:
    """Whether a call is one of those whose precision is chosen: of float32, in ``main``."""
    return is_call(call, *LAYERS) and str(call.args[0].ty.dtype) == "float32" and str(call.ty.dtype) == "float32"


def network_layers(
    module: "tvm.IRModule", among: Sequence[LayerPrecision], never: Collection[str]
) -> list[NetworkLayer]:
    """The layers of ``main``, in the order in which they are computed.

    Args:
        module: canonical, before its precision is changed (:func:`tvmake.transform.graph.float_network`).
        among: what is chosen among, the most accurate first.
        never: operators that stay in the first of them.
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
                    able = [one for one in able if not one.startswith("float16")]
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
