"""Mixed precision: TVM's ToMixedPrecision with the config's per-operator exceptions.

ToMixedPrecision computes a sum in float32 but its terms in float16. The squares in a norm then overflow for values above
256 and vanish for values below 0.0002. Such terms are computed in float32 too, which costs nothing in registers.
"""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm

from tvmake.errors import InputError
from tvmake.ir.attributes import TF32
from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewrite_calls
from tvmake.quantize.integers.conversion import has_quantized
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.fold_constants import evaluate_constants
from tvmake.transform.layouts.clips import join_clips, split_clips
from tvmake.transform.mixed_precision import ALWAYS, FOLLOW, NEVER, POLICY, to_mixed_precision

from tvm import relax  # isort: skip

INFER = "FInferMixedPrecision"

SUMS = ("sum", "mean", "variance", "std")

PRODUCTS = ("multiply", "power", "square")

_PLEVEL = 20
"""Above the level (10) at which TVM registers its own policies."""


def to_precision(module: "tvm.IRModule", precision: PrecisionConfig) -> "tvm.IRModule":
    """Convert ``module`` to a precision; inputs and outputs keep their dtypes. Integer networks stay unchanged.

    Raises:
        InputError: an operator is unknown, or cannot always be computed in float16.
    """
    if precision.base == "tf32":
        return module.with_attr(TF32, True)
    if precision.arithmetic in ("int8", "float32", "auto"):
        return module  # already converted, or unchanged
    if has_quantized(module):
        return module  # ToMixedPrecision fails at integer sums
    accumulator = "float16" if precision.arithmetic == "float16" else "float32"
    if precision.base != precision.arithmetic:
        precision = PrecisionConfig(base=precision.activations)  # `never` refers to weights
    with _policies_set(precision):
        module = tvm.relax.transform.ConvertToDataflow()(split_clips(module))  # it also fails at clips
        return join_clips(evaluate_constants(widen_terms(to_mixed_precision(module, accumulator))))


@contextmanager
def _policies_set(precision: PrecisionConfig) -> Iterator[None]:
    """Set the policies temporarily; TVM stores them per process."""
    policies = _policies(precision)
    before = {op: op.get_attr(POLICY) for op in policies}
    try:
        for op, policy in policies.items():
            op.set_attr(POLICY, policy, _PLEVEL)
        yield
    finally:
        for op, policy in before.items():
            op.reset_attr(POLICY)
            if policy is not None:
                op.set_attr(POLICY, policy, 10)


def _policies(precision: PrecisionConfig) -> dict["tvm.ir.Op", int]:
    policies: dict[tvm.ir.Op, int] = {}
    for names, policy in ((precision.always, ALWAYS), (precision.follow, FOLLOW), (precision.never, NEVER)):
        for name in names:
            op = operator_named(name, "precisions")
            if policy == ALWAYS and not _can_always(op):
                problem = "TVM cannot compute this operator in float16 always"
                remedy = f"those it can: {', '.join(_always_capable())}; under `follow` it takes the type of its inputs"
                raise InputError(f"precisions.always: {name}", problem, remedy)
            policies[op] = policy
    return policies


def _can_always(op: "tvm.ir.Op") -> bool:
    return op.get_attr(INFER) is not None  # has_attr is true for every operator once one has the attribute


def operator_named(name: str, where: str) -> "tvm.ir.Op":
    """Return the Relax operator with a name.

    Raises:
        InputError: there is no such operator.
    """
    full = name if name.startswith("relax.") else f"relax.{name}"
    known = [str(op) for op in tvm.ir.Op.list_op_names() if str(op).startswith("relax.")]
    if full not in known:
        close = difflib.get_close_matches(full, known, n=1)
        hint = (
            f"did you mean '{close[0].removeprefix('relax.')}'?"
            if close
            else "operators are named as in Relax: nn.conv2d, add"
        )
        raise InputError(f"{where}: {name}", "Relax has no such operator", hint)
    return tvm.ir.Op.get(full)


def _always_capable() -> list[str]:
    names = (str(op) for op in tvm.ir.Op.list_op_names())
    operators = (name for name in names if name.startswith("relax."))
    return sorted(name.removeprefix("relax.") for name in operators if _can_always(tvm.ir.Op.get(name)))


def widen_terms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Convert float16 products that are terms of float32 sums to float32."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _widen_terms_of))


def _widen_terms_of(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, *SUMS):
        return call
    wide = definition(visitor, call.args[0])
    if not is_call(wide, "astype") or str(wide.ty.dtype) != "float32":
        return call
    product = definition(visitor, wide.args[0])
    if not is_call(product, *PRODUCTS) or str(product.ty.dtype) != "float16":
        return call
    operands = [visitor.builder_.emit(relax.op.astype(operand, "float32")) for operand in product.args]
    terms = visitor.builder_.emit(relax.Call(product.op, operands, product.attrs))
    return relax.Call(call.op, [terms, *call.args[1:]], call.attrs)
