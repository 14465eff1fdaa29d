"""Large constants that are added, as tables of positions are, or multiplied with what is computed, as a detector's queries are, in integers
with a scale for each row. Kernels make numbers of them as they add; those that are multiplied have a kernel of their own.

In a transformer over sounds or pictures they are most of what stays in float. They have 8 bits, and 16 where only weights are rounded
and these have 8, because what is added to all that follows would be most of the noise. Tables whose largest numbers leave the others no
steps, as masks and what is added together with them have, stay as they are.
"""

import numpy as np
import tvm

from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import rewritten
from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.quantize.weights.channels import step
from tvmake.quantize.weights.tables import LEAST

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

HELD = {"add": (0, 1), "subtract": (0, 1), "matmul": (0,), "nn.attention": (0, 1, 2)}
"""Of each operator: the operands that are no weights, which have rules of their own."""

SHORTEST_ROW = 32
"""Numbers that share a scale, at least."""

LARGEST_NOISE = 2.0**-5
"""Of a row's smaller numbers: what rounding may make of them, as a share of their RMS. Drawn from a normal distribution, they have a hundredth."""


def hold_added(module: "tvm.IRModule", precision: PrecisionConfig) -> "tvm.IRModule":
    """The network with such constants in integers, where the precision holds weights so."""
    if precision.base not in ("int8", *WEIGHTS_ONLY):
        return module
    module = relax.transform.CanonicalizeBindings()(module)
    return relax.transform.DeadCodeElimination()(rewritten(module, _TableHolder(module, precision)))


def rounded(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Integers and scales, of one shape but for the extents that a row spans; None where these do not do."""
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
        self._places = {name: places for name, places in HELD.items() if name not in never}
        self._dtype = "int16" if precision.base == "int8_weights" else "int8"

    def visit_call_(self, op: "relax.Call") -> "relax.Expr":
        call = self.visit_expr_post_order(op)
        if not is_call(call, *self._places):
            return call
        places = self._places[operator_name(call)]
        operands = [self._held(operand) if place in places else operand for place, operand in enumerate(call.args)]
        return relax.Call(call.op, operands, call.attrs, call.ty_args, call.span)

    def _held(self, operand: "relax.Expr") -> "relax.Expr":
        values = constant(operand)
        held = None if values is None else rounded(values, self._dtype)
        if held is None:
            return operand
        integers, scales = (relax.const(part) for part in held)
        emit, dtype = self.builder_.emit, str(operand.ty.dtype)
        real = emit(relax.op.multiply(emit(relax.op.astype(integers, "float32")), scales))
        return real if dtype == "float32" else emit(relax.op.astype(real, dtype))
