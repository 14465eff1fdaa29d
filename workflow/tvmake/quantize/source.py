"""Whether the model that a network comes from is quantised: a fact that the import notes and every later module keeps."""

from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables
from tvmake.quantize.products import CONVOLUTIONS

IS_SOURCE_QUANTIZED = "tvmake.is_source_quantized"
"""Attribute of such a module."""


def is_source_quantized(module: "tvm.IRModule") -> bool:
    """Whether the source of a module rounds activations to integers."""
    return IS_SOURCE_QUANTIZED in (module.attrs or {})


def note_quantized_source(module: "tvm.IRModule", inputs: int, framework_rounds: bool) -> "tvm.IRModule":
    """An imported module, with the fact noted where its source is quantised.

    Weights alone in integers do not count: what is computed with them is real.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs; the others are weights.
        framework_rounds: whether the original framework rounds activations where the module does not.
    """
    if framework_rounds or _rounds_activations(module, inputs):
        return module.with_attr(IS_SOURCE_QUANTIZED, True)
    return module


def _rounds_activations(module: "tvm.IRModule", inputs: int) -> bool:
    computed = set(module["main"].params[:inputs])
    for binding in bindings(module["main"]):
        value: Any = getattr(binding, "value", None)
        if not any(variable in computed for variable in variables(value)):
            continue
        computed.add(binding.var)
        if is_call(value, "quantize") or (is_call(value, "matmul", *CONVOLUTIONS) and str(value.ty.dtype) == "int32"):
            return True
    return False
