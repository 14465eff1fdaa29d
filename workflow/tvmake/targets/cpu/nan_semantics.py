"""NaN in maxima, minima and comparisons as IEEE 754, PyTorch and ONNX define it.

If one operand is a constant, it becomes the first operand of the comparison, which costs nothing. For two variables,
the second one is tested for NaN. In reductions (pooling, attention scores) the test would take up to four times as
long, so they ignore NaN instead; TVM alone would drop the values before it. 64-bit Arm has an instruction that
propagates NaN, used in all cases. Repair: `nan-comparisons`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body

tirx = tvm.tirx

FLOATS = ("float16", "float32", "float64")

INSTRUCTIONS = {tirx.Max: "llvm.maximum", tirx.Min: "llvm.minimum"}
"""LLVM's intrinsics that propagate NaN."""

HAS_INSTRUCTIONS = "aarch64"
"""Other architectures need many instructions for them."""


@tirx.transform.prim_func_pass(opt_level=0, name="NanSemantics")
def propagate_nan(func: Any, _module: Any, _context: Any) -> Any:
    """Propagate NaN through extrema and comparisons of lowered functions; earlier, TVM simplifies ``not (a == b)``."""
    target = (func.attrs or {}).get("target")
    triple = str(target.attrs.get("mtriple", "")) if target is not None else ""
    propagator = _NanPropagator(func.body, triple.startswith(HAS_INSTRUCTIONS))
    callbacks = [(tirx.Max, propagator.extreme), (tirx.Min, propagator.extreme), (tirx.NE, _rewrite_not_equal)]
    return map_body(func, callbacks)


class _NanPropagator:
    """The extrema of one function."""

    def __init__(self, body: Any, has_instructions: bool):
        self.has_instructions = has_instructions
        self.accumulators: set[Any] = set()
        """Buffers that accumulate an extremum."""
        tvm_ffi.structural_walk(body, (tirx.BufferStore, self._note))

    def _note(self, store: Any) -> None:
        value: Any = store.value
        if isinstance(value, (tirx.Max, tirx.Min)) and _is_load_of(value.a, store.buffer):
            self.accumulators.add(store.buffer)

    def extreme(self, node: Any) -> Any:
        """The same extremum, NaN if an operand is NaN."""
        if not _is_float(node) or _is_never_nan(node.a):
            return node
        if self.has_instructions:
            return tirx.call_llvm_pure_intrin(dtype_name(node.ty), INSTRUCTIONS[type(node)], node.a, node.b)
        if _is_never_nan(node.b) or any(_is_load_of(node.a, buffer) for buffer in self.accumulators):
            return type(node)(node.b, node.a)
        if isinstance(node.b, tirx.Var):
            return _first_unless_nan(type(node), node.b, node.a)
        second = tirx.Var("second", dtype_name(node.ty))
        return tirx.Let(second, node.b, _first_unless_nan(type(node), second, node.a))


def _first_unless_nan(extreme: Any, variable: Any, other: Any) -> Any:
    return tirx.Select(tirx.EQ(variable, variable), extreme(variable, other), variable)


def _rewrite_not_equal(node: Any) -> Any:
    return tirx.Not(tirx.EQ(node.a, node.b)) if _is_float(node.a) else node


def _is_load_of(value: Any, buffer: Any) -> bool:
    return isinstance(value, tvm.ir.TensorLoad) and value.source.same_as(buffer)


def _is_float(value: Any) -> bool:
    return dtype_name(value.ty).partition("x")[0] in FLOATS


def _is_never_nan(value: Any) -> bool:
    """Whether a value is never NaN: a constant, or a converted integer such as a dynamic dimension."""
    scalar = value.value if isinstance(value, tirx.Broadcast) else value
    is_converted = isinstance(scalar, tirx.Cast) and not _is_float(scalar.value)
    return is_converted or isinstance(scalar, tirx.FloatImm)
