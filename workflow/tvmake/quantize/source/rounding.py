"""Record whether the source model rounds its activations: the import sets an attribute that all later modules keep.

A quantised source rounds to integers. A source that computes in bfloat16 rounds to 8 bits of significand: PyTorch after
each operator, a fused kernel at its end; so does one that computes in float16 and returns bytes. Both are about equally accurate: for two linear layers with GELU, PyTorch is at
47 dB from float64, and the kernel at 51 dB.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables
from tvmake.quantize.integers.products import CONVOLUTIONS

from tvm import relax  # isort: skip

IS_SOURCE_QUANTIZED = "tvmake.is_source_quantized"
"""Module attribute: ``INTEGERS``, ``BFLOAT16`` or ``FLOAT16``."""

INTEGERS, BFLOAT16, FLOAT16 = "integers", "bfloat16", "float16"

BYTES = ("int8", "uint8")

CASTS = (
    "astype", "bitwise_and", "clip", "round", "permute_dims", "reshape", "squeeze", "expand_dims", "flatten", "strided_slice",
)  # fmt: skip
"""Operators between a value and its integer, and those that move elements."""


def is_source_quantized(module: "tvm.IRModule") -> bool:
    """Whether the source of a module rounds activations, to integers, to bfloat16, or to float16 before it returns bytes."""
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
    """Return ``INTEGERS``, ``BFLOAT16`` or ``FLOAT16`` if a network rounds its activations; None otherwise."""
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
    return rounds_to or (FLOAT16 if _rounds_half_to_bytes(module, computed) else None)


def _rounds_half_to_bytes(module: "tvm.IRModule", computed: "set[relax.Var]") -> bool:
    """Whether every 8-bit output, and at least one, is a float16 value that the network computes and casts."""
    values = {binding.var: getattr(binding, "value", None) for binding in bindings(module["main"])}
    result = module["main"].body.body
    result = values.get(result, result)
    outputs = list(result.fields) if isinstance(result, relax.Tuple) else [module["main"].body.body]
    returned = [output for output in outputs if str(getattr(output.ty, "dtype", "")) in BYTES]
    return bool(returned) and all(_is_cast_half(output, values, computed) for output in returned)


def _is_cast_half(output: Any, values: "dict[relax.Var, Any]", computed: "set[relax.Var]") -> bool:
    source = output
    while not (source in computed and str(source.ty.dtype) == FLOAT16):
        value: Any = values.get(source)
        if is_call(value, "where"):  # zeros for values that are not finite
            source = value.args[2]
        elif is_call(value, *CASTS):
            source = value.args[0]
        else:
            return False
    return True
