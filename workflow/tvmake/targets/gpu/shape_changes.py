"""Changes of shape moved to where they cost a GPU no kernel.

PyTorch computes a linear layer of tokens as a product of two matrices between two reshapes. TVM fuses nothing but steps by element into a
product, so the reshape behind it parts it from the activation or the residual, which become kernels of their own. The reshape of a
result that stands in memory costs nothing: behind these steps it parts nothing.

Attention that gets its queries, keys and values of one product takes them from a permutation of it. TVM fuses a permutation with
what follows where that is one kernel only, so the three would be copied twice: each has its own permutation here.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten")
"""Operators whose result has the elements of their operand, in their order."""

FUSED = ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.softmax")
"""Operators into whose kernels TVM fuses the steps by element that follow."""

UNARY = (
    "abs", "astype", "ceil", "cos", "erf", "exp", "floor", "log", "negative", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu",
    "round", "rsqrt", "sigmoid", "sin", "sqrt", "square", "tanh",
)  # fmt: skip

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")

MOST_STEPS = 50
"""By element, that are looked at behind a product."""

PARTS = ("strided_slice", "take")
"""Operators that read a part of their first operand."""


def move_shape_changes(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with reshapes of products behind the steps by element that follow, and permutations for each of their parts."""
    moved = relax.transform.CanonicalizeBindings()(rewritten(module, _ShapeChangeMover(module)))
    return relax.transform.DeadCodeElimination()(moved)


@mutator
class _ShapeChangeMover(PyExprMutator):
    def __init__(self, module: "tvm.IRModule") -> None:
        super().__init__(module)
        self.fused: dict[Any, bool] = {}
        """By variable: what was found out already."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if is_call(call, *RESHAPES):
            return self._at_once(call, op)
        if is_call(call, "broadcast_to"):
            return call.args[0] if extents(op) and same_extents(extents(call.args[0]), extents(op)) else call
        if is_call(call, *PARTS):
            return self._of_own_permutation(call, op)
        if is_call(call, *UNARY, *BINARY):
            return self._before_reshape(call, op)
        return call

    def _at_once(self, call: Any, op: Any) -> Any:
        """A reshape of what no reshape made, which TVM sees that it need not copy."""
        source = operand = call.args[0]
        after = extents(op)
        if not after:
            return call
        while is_call(made := definition(self, source), *RESHAPES) and extents(made.args[0]):
            source = made.args[0]
        if same_extents(extents(source), after):
            return source
        return call if source is operand else relax.op.reshape(source, relax.ShapeExpr(after))

    def _of_own_permutation(self, call: Any, op: Any) -> Any:
        permuted, *others = call.args
        permutation = definition(self, permuted)
        if not is_call(permutation, "permute_dims") or not _is_smaller(op, permuted):
            return call
        copy = self.builder_.emit(relax.Call(permutation.op, permutation.args, permutation.attrs))
        return relax.Call(call.op, [copy, *others], call.attrs)

    def _before_reshape(self, call: Any, op: Any) -> Any:
        """A step by element on what a reshape of a product is made of, reshaped."""
        operands = list(call.args[:1] if is_call(call, *UNARY) else call.args)
        after = extents(op)
        for operand in operands:
            reshape = definition(self, operand)
            if not is_call(reshape, *RESHAPES) or not same_extents(extents(operand), after):
                continue
            source = reshape.args[0]
            before = extents(source)
            if not before or not self._is_fused(source):
                continue
            moved = [source if one is operand else self._as_before(one, before, after) for one in operands]
            if any(one is None for one in moved):
                continue
            step = self.builder_.emit(relax.Call(call.op, [*moved, *call.args[len(operands) :]], call.attrs))
            return relax.op.reshape(step, relax.ShapeExpr(after))
        return call

    def _is_fused(self, value: Any, steps: int = MOST_STEPS) -> bool:
        """Whether a step by element of a value is fused with what computes it."""
        if value not in self.fused:
            made = definition(self, value)
            self.fused[value] = is_call(made, *FUSED) or (
                is_call(made, *UNARY, *BINARY)
                and steps > 0
                and any(self._is_fused(operand, steps - 1) for operand in made.args)
            )
        return self.fused[value]

    def _as_before(self, operand: Any, before: list[Any], after: list[Any]) -> Any | None:
        """An operand beside one of a shape which had another before a reshape: for that shape; None where there is none."""
        shape = extents(operand)
        if getattr(operand.ty, "shape", None) is None:
            return None
        if same_extents(shape, after):
            made = definition(self, operand)
            if is_call(made, *RESHAPES) and same_extents(extents(made.args[0]), before):
                return made.args[0]
            return self.builder_.emit(relax.op.reshape(operand, relax.ShapeExpr(before)))
        same = 0
        while same < min(len(before), len(after)) and same_extents(before[-1 - same :], after[-1 - same :]):
            same += 1
        is_one = all(same_extents([extent], [tvm.tirx.IntImm("int64", 1)]) for extent in shape)
        return operand if len(shape) <= (len(before) if is_one else same) else None


def _is_smaller(part: Any, whole: Any) -> bool:
    read, there = extents(part), extents(whole)
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in (*read, *there)):
        return False
    return math.prod(map(int, read)) < math.prod(map(int, there))
