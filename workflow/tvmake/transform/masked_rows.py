"""Attention without a look for rows that are masked out, where none can be.

PyTorch's attention gives zeros for a row of scores that are all minus infinity, which softmax alone makes NaN (``_safe_softmax`` of
torch/_refs, called by ``_scaled_dot_product_attention_math``). Every network that is exported with it computes the maximum over truth values
of all its scores for that, with a mask or without. A row that has a number for certain needs none of it.

What is a sum of products counts as a number, as long as nothing overflows. Inputs of the network count as anything.
"""

from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

PRODUCTS = ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d")

MOVING = (
    "reshape", "permute_dims", "broadcast_to", "astype", "squeeze", "expand_dims", "strided_slice", "flatten", "take",
    "gather_elements",
)  # fmt: skip
"""Operators whose results are numbers if those of their first operand are."""

BOUNDED = ("tanh", "sigmoid", "nn.softmax", "sin", "cos", "erf")

PAIRS = ("add", "subtract", "multiply", "maximum", "minimum")
"""Operators that make numbers of two numbers."""

TRUTHS = ("astype", "logical_not", "max")
"""What stands between the comparison of scores with minus infinity and the choice between zeros and softmax."""


def drop_masked_rows(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with softmax alone where every row has a number. Masks have to be constants already."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _RowCheckRemover(module)))


@mutator
class _RowCheckRemover(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "where"):
            return call
        condition, zeros, probabilities = call.args
        softmax = definition(self, probabilities)
        if not is_call(softmax, "nn.softmax") or int(softmax.attrs.axis) not in (-1, softmax.ty.ndim - 1):
            return call
        scores = softmax.args[0]
        is_masking = self._is_zero(zeros) and self._asks_for_masked_rows(condition, scores)
        return probabilities if is_masking and self._has_number_in_each_row(scores) else call

    def _is_zero(self, value: Any) -> bool:
        held = constant(definition(self, value))
        return held is not None and not held.any()

    def _asks_for_masked_rows(self, condition: Any, scores: Any) -> bool:
        """Whether a condition is: no score of the row is different from minus infinity."""
        steps = []
        made = definition(self, condition)
        while (name := operator_name(made)) in TRUTHS:
            if name == "max" and [int(axis) for axis in made.attrs.axis or ()] not in (
                [-1],
                [scores.ty.ndim - 1],
            ):
                return False
            steps += [] if name == "astype" else [name]
            made = definition(self, made.args[0])
        if steps != ["logical_not", "max", "logical_not"] or not is_call(made, "equal"):
            return False
        compared, bound = made.args
        lowest = constant(definition(self, bound))
        return (
            lowest is not None
            and bool(np.isneginf(lowest).all())
            and definition(self, compared) == definition(self, scores)
        )

    def _has_number_in_each_row(self, value: Any) -> bool:
        """Whether each row of the last axis has an element that is a number for certain."""
        made = definition(self, value)
        held = constant(made)
        if held is not None:
            return bool(np.isfinite(held).any(axis=-1).all()) if held.ndim else bool(np.isfinite(held))
        name = operator_name(made)
        if name in ("add", "subtract"):
            first, second = made.args
            return (self._is_number(first) and self._has_number_in_each_row(second)) or (
                self._has_number_in_each_row(first) and self._is_number(second)
            )
        if name == "where":
            chosen = constant(definition(self, made.args[0]))
            if chosen is not None and self._is_number(made.args[1]):
                return bool(chosen.any(axis=-1).all()) if chosen.ndim else bool(chosen)
        if name == "astype" or (name in ("reshape", "broadcast_to") and _keeps_rows(made)):
            return self._has_number_in_each_row(made.args[0])
        return self._is_number(made)

    def _is_number(self, value: Any) -> bool:
        """Whether all elements are numbers, neither infinite nor NaN, for certain."""
        made = definition(self, value)
        held = constant(made)
        if held is not None:
            return bool(np.isfinite(held).all())
        name = operator_name(made)
        if name in PRODUCTS or name in BOUNDED:
            return True
        if name in MOVING:
            return self._is_number(made.args[0])
        return name in PAIRS and all(self._is_number(operand) for operand in made.args)


def _keeps_rows(call: Any) -> bool:
    """Whether the rows of the last axis stay as they are, though there may be others of the same."""
    before, after = call.args[0].ty.shape, call.ty.shape
    return bool(len(before) and tvm_ffi.structural_equal(before[-1], after[-1]))
