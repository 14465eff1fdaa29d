"""Store large constants other than weights in integers, with a scale for each row.

Such constants are added, like position embeddings, or multiplied with activations, like a detector's queries. Kernels
dequantise added constants as they add; multiplied ones have a separate kernel.

In a transformer for audio or images they are most of the remaining float constants. They have 8 bits; with
``int8_weights`` they have 16, because their rounding would otherwise dominate the noise of all later layers. Tables with a
few very large values, such as masks, leave too few steps for the others and stay in float.
"""

import numpy as np
import tvm

from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import rewritten
from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.quantize.weights.channels import step
from tvmake.quantize.weights.tables import LEAST

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

HELD = {"add": (0, 1), "subtract": (0, 1), "matmul": (0,), "nn.attention": (0, 1, 2)}
"""Operands of each operator that are not weights; weights have separate rules."""

SHORTEST_ROW = 32
"""Minimum number of elements that share a scale."""

LARGEST_NOISE = 2.0**-5
"""Largest rounding error of a row's smaller values, relative to their RMS; about 0.01 for a normal distribution."""


def hold_added(module: "tvm.IRModule", precision: PrecisionConfig) -> "tvm.IRModule":
    """Store such constants in integers, if the precision stores weights in integers."""
    if precision.base not in ("int8", *WEIGHTS_ONLY):
        return module
    module = relax.transform.CanonicalizeBindings()(module)
    return relax.transform.DeadCodeElimination()(rewritten(module, _TableHolder(module, precision)))


def round_rows(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Round an array to integers with a scale for each row; None if integers are too inaccurate."""
    if values.size < LEAST or values.dtype not in (np.float32, np.float16) or not np.isfinite(values).all():
        return None
    begin = values.ndim - 1
    while begin > 0 and np.prod(values.shape[begin:]) < SHORTEST_ROW:
        begin -= 1
    rows = values.reshape(int(np.prod(values.shape[:begin])), -1).astype(np.float64)
    most = np.iinfo(dtype).max
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scales = np.asarray([[step(value / most)] for (value,) in largest], np.float32)
    integers = np.clip(np.rint(rows / scales), -most, most)
    small = np.abs(rows) <= largest / 2
    noise = np.square(rows - integers * scales).sum(axis=1, where=small)
    if rows.shape[1] < SHORTEST_ROW or (noise > LARGEST_NOISE**2 * np.square(rows).sum(axis=1, where=small)).any():
        return None
    shape = [*values.shape[:begin], *[1] * (values.ndim - begin)]
    return integers.astype(dtype).reshape(values.shape), scales.reshape(shape)


@mutator
class _TableHolder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", precision: PrecisionConfig):
        super().__init__(module)
        never = {name.removeprefix("relax.") for name in precision.never}
        self._operands = {name: indices for name, indices in HELD.items() if name not in never}
        self._dtype = "int16" if precision.base == "int8_weights" else "int8"

    def visit_call_(self, op: "relax.Call") -> "relax.Expr":
        call = self.visit_expr_post_order(op)
        if not is_call(call, *self._operands):
            return call
        indices = self._operands[operator_name(call)]
        operands = [self._store(operand) if index in indices else operand for index, operand in enumerate(call.args)]
        return relax.Call(call.op, operands, call.attrs, call.ty_args, call.span)

    def _store(self, operand: "relax.Expr") -> "relax.Expr":
        values = constant(operand)
        parts = None if values is None else round_rows(values, self._dtype)
        if parts is None:
            return operand
        integers, scales = (relax.const(spill_tensor(part)) for part in parts)
        emit, dtype = self.builder_.emit, str(operand.ty.dtype)
        real = emit(relax.op.multiply(emit(relax.op.astype(integers, "float32")), scales))
        return real if dtype == "float32" else emit(relax.op.astype(real, dtype))
