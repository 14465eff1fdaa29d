"""Whether the model that a network comes from rounds its activations: a fact that the import notes and every later module keeps.

To integers, where it is quantised, or to bfloat16, where ``forward`` computes in it: PyTorch rounds to 8 bits of mantissa after each operator, and
a kernel of several operators at its end. Both are as far from what is meant: two linear layers with GELU are 47 dB from float64 in PyTorch, 51 dB here.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables
from tvmake.quantize.integers.products import CONVOLUTIONS

from tvm import relax  # isort: skip

IS_SOURCE_QUANTIZED = "tvmake.is_source_quantized"
"""Attribute of such a module: to what."""

INTEGERS, BFLOAT16 = "integers", "bfloat16"


def is_source_quantized(module: "tvm.IRModule") -> bool:
    """Whether the source of a module rounds activations, to integers or to bfloat16."""
    return IS_SOURCE_QUANTIZED in (module.attrs or {})


def is_source_in_integers(module: "tvm.IRModule") -> bool:
    """Whether it rounds them to integers."""
    return str((module.attrs or {}).get(IS_SOURCE_QUANTIZED, "")) == INTEGERS


def note_quantized_source(module: "tvm.IRModule", inputs: int, framework_rounds: bool) -> "tvm.IRModule":
    """An imported module, with the fact noted where its source rounds activations.

    Weights alone in integers do not count: what is computed with them is real.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs; the others are weights.
        framework_rounds: whether the original framework rounds activations where the module does not.
    """
    rounds_to = INTEGERS if framework_rounds else _rounds_activations(module, inputs)
    return module if rounds_to is None else module.with_attr(IS_SOURCE_QUANTIZED, rounds_to)


def _rounds_activations(module: "tvm.IRModule", inputs: int) -> str | None:
    """What a network makes of its activations, if it rounds them."""
    found = None
    computed = set(module["main"].params[:inputs])
    for binding in bindings(module["main"]):
        value: Any = getattr(binding, "value", None)
        if not any(variable in computed for variable in variables(value)):
            continue
        computed.add(binding.var)
        if is_call(value, "quantize") or (is_call(value, "matmul", *CONVOLUTIONS) and str(value.ty.dtype) == "int32"):
            return INTEGERS
        if isinstance(binding.var.ty, relax.TensorType) and str(binding.var.ty.dtype) == BFLOAT16:
            found = BFLOAT16
    return found
