"""What is added to each channel of a product in integers, as one number in float32.

There are up to three of them: what the input's zero point adds to the sums, in int32; what calibration found that rounding
shifts a channel by; and the network's bias. One vector takes a third of the room, and of the additions. Its rounding to float32 is far
below that of the operands to 8 bits; sums of quantised sources, which are to equal their framework's to the step, stay as they are.
"""

import math
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewritten
from tvmake.quantize.integers.affine import affine, along, dequantize

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def join_offsets(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with what is added to a dequantised product's channels in one constant; what nothing uses any more stays."""
    return rewritten(module, _OffsetJoiner(module))


@mutator
class _OffsetJoiner(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if is_call(call, "dequantize"):
            return self._after_the_scale(call)
        return self._added(call) if is_call(call, "add") else call

    def _after_the_scale(self, call: Any) -> Any:
        """Scaled sums less a constant as scaled sums, less the scaled constant."""
        found = affine(call)
        if found is None or found.dtype != "int32" or not found.is_known or found.zero.any():
            return call
        made = definition(self, found.integers)
        taken_off = constant(made.args[1]) if is_call(made, "subtract") else None
        if taken_off is None or not _is_vector(taken_off, found.rank):
            return call
        # In float64, so that only the result is rounded.
        offset = -taken_off * along(found.scale.astype(np.float64), found.axis, found.rank)
        real = self.builder_.emit(dequantize(made.args[0], found.scale, found.zero, found.axis))
        return relax.op.add(real, relax.const(offset.astype(np.float32), "float32"))

    def _added(self, call: Any) -> Any:
        """A product plus a vector plus another one as the product plus one vector."""
        for value, other in (call.args, reversed(list(call.args))):
            more, made = constant(definition(self, other)), definition(self, value)
            first = constant(made.args[1]) if is_call(made, "add") else None
            if more is None or first is None or str(call.ty.dtype) != "float32":
                continue
            found = affine(definition(self, made.args[0]))
            if found is None or found.dtype != "int32" or not same_extents(extents(call), extents(made)):
                continue
            both = first.astype(np.float64) + more
            if both.size <= max(first.size, found.scale.size if isinstance(found.scale, np.ndarray) else 1):
                return relax.op.add(made.args[0], relax.const(both.astype(np.float32), "float32"))
        return call


def _is_vector(values: np.ndarray, rank: int) -> bool:
    """Whether an array spreads along one axis at most."""
    return values.ndim <= rank and math.prod(values.shape) == max(values.shape, default=1)
