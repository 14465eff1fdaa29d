"""Record whether the source model rounds its activations: the import sets an attribute that all later modules keep.

A quantised source rounds to integers. A source that computes in bfloat16 rounds to 8 bits of significand: PyTorch after
each operator, a fused kernel at its end. Both are about equally accurate: for two linear layers with GELU, PyTorch is at
47 dB from float64, and the kernel at 51 dB.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables
from tvmake.quantize.integers.products import CONVOLUTIONS

from tvm import relax  # isort: skip

IS_SOURCE_QUANTIZED = "tvmake.is_source_quantized"
"""Module attribute: ``INTEGERS`` or ``BFLOAT16``."""

INTEGERS, BFLOAT16 = "integers", "bfloat16"


def is_source_quantized(module: "tvm.IRModule") -> bool:
    """Whether the source of a module rounds activations, to integers or to bfloat16."""
    return IS_SOURCE_QUANTIZED in (module.attrs or {})


def is_source_in_integers(module: "tvm.IRModule") -> bool:
    """Whether the source of a module rounds activations to integers."""
    return str((module.attrs or {}).get(IS_SOURCE_QUANTIZED, "")) == INTEGERS


def note_quantized_source(module: "tvm.IRModule", inputs: int, framework_rounds: bool) -> "tvm.IRModule":
    """Set the attribute of an imported module if its source rounds activations.

    Weights in integers do not count, because the arithmetic with them is in floating point.

    Args:
        inputs: number of ``main``'s arguments that are the model's inputs; the others are weights.
        framework_rounds: whether the original framework rounds activations although the module does not.
    """
    rounds_to = INTEGERS if framework_rounds else _rounds_activations(module, inputs)
    return module if rounds_to is None else module.with_attr(IS_SOURCE_QUANTIZED, rounds_to)


def _rounds_activations(module: "tvm.IRModule", inputs: int) -> str | None:
    """Return ``INTEGERS`` or ``BFLOAT16`` if a network rounds its activations; None otherwise."""
    rounds_to = None
    computed = set(module["main"].params[:inputs])
    for binding in bindings(module["main"]):
        value: Any = getattr(binding, "value", None)
        if not any(variable in computed for variable in variables(value)):
            continue
        computed.add(binding.var)
        if is_call(value, "quantize") or (is_call(value, "matmul", *CONVOLUTIONS) and str(value.ty.dtype) == "int32"):
            return INTEGERS
        if isinstance(binding.var.ty, relax.TensorType) and str(binding.var.ty.dtype) == BFLOAT16:
            rounds_to = BFLOAT16
    return rounds_to
