"""Remove the check for fully masked rows from attention, if no row can be fully masked.

PyTorch's attention gives zeros for a row of scores that are all minus infinity, for which softmax gives NaN
(``_safe_softmax`` of torch/_refs, called by ``_scaled_dot_product_attention_math``). Every exported network therefore
computes a maximum over booleans of all its scores, with or without a mask. A row with a provably finite score needs no
check.

Sums of products count as finite, since overflow is ignored. Inputs of the network may be any value.
"""

from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

PRODUCTS = ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d")

MOVING = (
    "reshape", "permute_dims", "broadcast_to", "astype", "squeeze", "expand_dims", "strided_slice", "flatten", "take",
    "gather_elements",
)  # fmt: skip
"""Operators whose results are finite if their first operand is."""

BOUNDED = ("tanh", "sigmoid", "nn.softmax", "sin", "cos", "erf")

PAIRS = ("add", "subtract", "multiply", "maximum", "minimum")
"""Binary operators with finite results for finite operands."""

TRUTHS = ("astype", "logical_not", "max")
"""Operators between the comparison of scores with minus infinity and the choice between zeros and softmax."""


def drop_masked_rows(module: "tvm.IRModule") -> "tvm.IRModule":
    """Keep only the softmax if every row has a finite score. Masks must be constants."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _drop_row_check))


def _drop_row_check(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "where"):
        return call
    condition, zeros, probabilities = call.args
    softmax = definition(visitor, probabilities)
    if not is_call(softmax, "nn.softmax") or int(softmax.attrs.axis) not in (-1, softmax.ty.ndim - 1):
        return call
    scores = softmax.args[0]
    is_masking = _is_zero(visitor, zeros) and _checks_masked_rows(visitor, condition, scores)
    return probabilities if is_masking and _has_finite_element_in_each_row(visitor, scores) else call


def _is_zero(visitor: Any, value: Any) -> bool:
    values = constant(definition(visitor, value))
    return values is not None and not values.any()


def _checks_masked_rows(visitor: Any, condition: Any, scores: Any) -> bool:
    """Whether a condition tests that all scores of a row are minus infinity."""
    steps = []
    call = definition(visitor, condition)
    while (name := operator_name(call)) in TRUTHS:
        if name == "max" and [int(axis) for axis in call.attrs.axis or ()] not in (
            [-1],
            [scores.ty.ndim - 1],
        ):
            return False
        steps += [] if name == "astype" else [name]
        call = definition(visitor, call.args[0])
    if steps != ["logical_not", "max", "logical_not"] or not is_call(call, "equal"):
        return False
    compared, bound = call.args
    lowest = constant(definition(visitor, bound))
    return (
        lowest is not None
        and bool(np.isneginf(lowest).all())
        and definition(visitor, compared) == definition(visitor, scores)
    )


def _has_finite_element_in_each_row(visitor: Any, value: Any) -> bool:
    """Whether each row of the last axis has a provably finite element."""
    call = definition(visitor, value)
    values = constant(call)
    if values is not None:
        return bool(np.isfinite(values).any(axis=-1).all()) if values.ndim else bool(np.isfinite(values))
    name = operator_name(call)
    if name in ("add", "subtract"):
        first, second = call.args
        return (_is_finite(visitor, first) and _has_finite_element_in_each_row(visitor, second)) or (
            _has_finite_element_in_each_row(visitor, first) and _is_finite(visitor, second)
        )
    if name == "where":
        mask = constant(definition(visitor, call.args[0]))
        if mask is not None and _is_finite(visitor, call.args[1]):
            return bool(mask.any(axis=-1).all()) if mask.ndim else bool(mask)
    if name == "astype" or (name in ("reshape", "broadcast_to") and _keeps_rows(call)):
        return _has_finite_element_in_each_row(visitor, call.args[0])
    return _is_finite(visitor, call)


def _is_finite(visitor: Any, value: Any) -> bool:
    """Whether all elements are provably finite."""
    call = definition(visitor, value)
    values = constant(call)
    if values is not None:
        return bool(np.isfinite(values).all())
    name = operator_name(call)
    if name in PRODUCTS or name in BOUNDED:
        return True
    if name in MOVING:
        return _is_finite(visitor, call.args[0])
    return name in PAIRS and all(_is_finite(visitor, operand) for operand in call.args)


def _keeps_rows(call: Any) -> bool:
    """Whether rows of the last axis stay unchanged; they may be repeated."""
    before, after = call.args[0].ty.shape, call.ty.shape
    return bool(len(before) and tvm_ffi.structural_equal(before[-1], after[-1]))
