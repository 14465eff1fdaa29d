"""Expand activations that ConvertLayout does not support.

Repair: `layout-of-activations`.
"""

from collections.abc import Callable
from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.ir.rewriting import rewrite_calls

from tvm import relax  # isort: skip

Emit = Callable[[Any], Any]


def spell_out_activations(module: "tvm.IRModule") -> "tvm.IRModule":
    """Expand softplus, and leaky ReLUs with a slope from 0 to 1."""
    return rewrite_calls(module, _spell_out)


def _leaky_relu(call: relax.Call, emit: Emit) -> Any:
    value, slope = call.args[0], float(call.attrs.alpha)
    if not 0 <= slope <= 1:
        return call
    return relax.op.maximum(value, emit(relax.op.multiply(value, relax.const(slope, str(value.ty.dtype)))))


def _softplus(call: relax.Call, emit: Emit) -> Any:
    # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), which cannot overflow.
    value = call.args[0]
    beta, zero, one = (relax.const(number, str(value.ty.dtype)) for number in (float(call.attrs.beta), 0.0, 1.0))
    steep = emit(relax.op.multiply(value, beta))
    small = emit(relax.op.exp(emit(relax.op.negative(emit(relax.op.abs(steep))))))
    rest = emit(relax.op.log(emit(relax.op.add(small, one))))
    return relax.op.divide(emit(relax.op.add(emit(relax.op.maximum(steep, zero)), rest)), beta)


SPELLED: dict[str, Callable[[relax.Call, Emit], Any]] = {
    "nn.leakyrelu": _leaky_relu,
    "nn.softplus": _softplus,
}


def _spell_out(visitor: Any, op: Any, call: Any) -> Any:
    spell = SPELLED.get(operator_name(call))
    if spell is None or not isinstance(call.ty, relax.TensorType) or not str(call.ty.dtype).startswith("float"):
        return call
    return spell(call, visitor.builder_.emit)
