"""Move changes of shape to where they cost a GPU no kernel.

PyTorch computes a linear layer of tokens as a matmul between two reshapes. TVM fuses only element-wise steps into a
matmul, so the reshape after it separates it from the activation or the residual, which become separate kernels. A
reshape of a result in memory costs nothing, so it moves behind these steps.

Attention that computes queries, keys and values by one matmul takes them from a permutation of its result. TVM fuses a
permutation only with a single consumer, so all three would be copied twice. Here each gets its own permutation.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten")
"""Operators whose result has the elements of their operand, in the same order."""

FUSED = ("matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.softmax")
"""Operators whose kernels TVM fuses with the element-wise steps that follow."""

UNARY = (
    "abs", "astype", "ceil", "cos", "erf", "exp", "floor", "log", "negative", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu",
    "round", "rsqrt", "sigmoid", "sin", "sqrt", "square", "tanh",
)  # fmt: skip

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")

MOST_STEPS = 50
"""Maximum number of element-wise steps after a matmul that are considered."""

PARTS = ("strided_slice", "take")
"""Operators that read a part of their first operand."""


def move_shape_changes(module: "tvm.IRModule") -> "tvm.IRModule":
    """Move reshapes of matmuls behind the element-wise steps that follow, and give each part its own permutation."""
    moved = relax.transform.CanonicalizeBindings()(rewritten(module, _ShapeChangeMover(module)))
    return relax.transform.DeadCodeElimination()(moved)


@mutator
class _ShapeChangeMover(PyExprMutator):
    def __init__(self, module: "tvm.IRModule") -> None:
        super().__init__(module)
        self.fused: dict[Any, bool] = {}
        """Results of :meth:`_is_fused` by variable."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if is_call(call, *RESHAPES):
            return self._join_reshapes(call, op)
        if is_call(call, "broadcast_to"):
            return call.args[0] if extents(op) and same_extents(extents(call.args[0]), extents(op)) else call
        if is_call(call, *PARTS):
            return self._copy_permutation(call, op)
        if is_call(call, *UNARY, *BINARY):
            return self._move_before_reshape(call, op)
        return call

    def _join_reshapes(self, call: Any, op: Any) -> Any:
        """Join consecutive reshapes to one, which TVM recognises as a view."""
        source = operand = call.args[0]
        after = extents(op)
        if not after:
            return call
        while is_call(producer := definition(self, source), *RESHAPES) and extents(producer.args[0]):
            source = producer.args[0]
        if same_extents(extents(source), after):
            return source
        return call if source is operand else relax.op.reshape(source, relax.ShapeExpr(after))

    def _copy_permutation(self, call: Any, op: Any) -> Any:
        permuted, *others = call.args
        permutation = definition(self, permuted)
        if not is_call(permutation, "permute_dims") or not _is_smaller(op, permuted):
            return call
        copy = self.builder_.emit(relax.Call(permutation.op, permutation.args, permutation.attrs))
        return relax.Call(call.op, [copy, *others], call.attrs)

    def _move_before_reshape(self, call: Any, op: Any) -> Any:
        """Apply an element-wise step before a reshape of a matmul, and reshape its result."""
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
            moved = [source if other is operand else self._in_source_shape(other, before, after) for other in operands]
            if any(other is None for other in moved):
                continue
            step = self.builder_.emit(relax.Call(call.op, [*moved, *call.args[len(operands) :]], call.attrs))
            return relax.op.reshape(step, relax.ShapeExpr(after))
        return call

    def _is_fused(self, value: Any, steps: int = MOST_STEPS) -> bool:
        """Whether an element-wise step on a value is fused with the computation of the value."""
        if value not in self.fused:
            producer = definition(self, value)
            self.fused[value] = is_call(producer, *FUSED) or (
                is_call(producer, *UNARY, *BINARY)
                and steps > 0
                and any(self._is_fused(operand, steps - 1) for operand in producer.args)
            )
        return self.fused[value]

    def _in_source_shape(self, operand: Any, before: list[Any], after: list[Any]) -> Any | None:
        """Another operand in the shape before a reshape; None if that is impossible."""
        shape = extents(operand)
        if getattr(operand.ty, "shape", None) is None:
            return None
        if same_extents(shape, after):
            producer = definition(self, operand)
            if is_call(producer, *RESHAPES) and same_extents(extents(producer.args[0]), before):
                return producer.args[0]
            return self.builder_.emit(relax.op.reshape(operand, relax.ShapeExpr(before)))
        same = 0
        while same < min(len(before), len(after)) and same_extents(before[-1 - same :], after[-1 - same :]):
            same += 1
        are_ones = all(same_extents([extent], [tvm.tirx.IntImm("int64", 1)]) for extent in shape)
        return operand if len(shape) <= (len(before) if are_ones else same) else None


def _is_smaller(part: Any, whole: Any) -> bool:
    read, there = extents(part), extents(whole)
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in (*read, *there)):
        return False
    return math.prod(map(int, read)) < math.prod(map(int, there))
