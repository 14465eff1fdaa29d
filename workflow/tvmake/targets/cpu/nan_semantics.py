"""NaN in maxima, minima and comparisons as IEEE 754, PyTorch and ONNX define it.

For a value and a constant, the constant becomes the first operand of the comparison, which costs nothing. For two values, the second
one is tested for NaN. Extrema of many values (pooling, rows of attention scores) would take up to four times as long with such a test:
they ignore NaN, whereas TVM drops the values before it. 64-bit Arm has an instruction that keeps NaN, for all of them.
Repair: `nan-comparisons`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name

tirx = tvm.tirx

FLOATS = ("float16", "float32", "float64")

INSTRUCTIONS = {tirx.Max: "llvm.maximum", tirx.Min: "llvm.minimum"}
"""LLVM's names of those that keep NaN."""

HAS_INSTRUCTIONS = "aarch64"
"""Elsewhere they take many."""


@tirx.transform.prim_func_pass(opt_level=0, name="NanSemantics")
class NanSemantics:
    """Propagate NaN through extrema and comparisons; for lowered functions, because TVM simplifies ``not (a == b)``."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such operators of floating-point numbers replaced; one without any as it is."""
        target = (func.attrs or {}).get("target")
        triple = str(target.attrs.get("mtriple", "")) if target is not None else ""
        keeping = _Keeping(func.body, triple.startswith(HAS_INSTRUCTIONS))
        steps = [(tirx.Max, keeping.extreme), (tirx.Min, keeping.extreme), (tirx.NE, _differs)]
        body = tvm_ffi.structural_map(func.body, steps)
        return func if body.same_as(func.body) else func.with_body(body)


class _Keeping:
    """The extrema of one function."""

    def __init__(self, body: Any, has_instructions: bool):
        self.has_instructions = has_instructions
        self.kept: set[Any] = set()
        """Buffers that hold the extreme of what came before."""
        tvm_ffi.structural_walk(body, (tirx.BufferStore, self._note))

    def _note(self, store: Any) -> None:
        value: Any = store.value
        if isinstance(value, (tirx.Max, tirx.Min)) and _is_of(value.a, store.buffer):
            self.kept.add(store.buffer)

    def extreme(self, node: Any) -> Any:
        """The same extreme, which is NaN where an operand is."""
        if not _is_float(node) or _is_number(node.a):
            return node
        if self.has_instructions:
            return tirx.call_llvm_pure_intrin(dtype_name(node.ty), INSTRUCTIONS[type(node)], node.a, node.b)
        if _is_number(node.b) or any(_is_of(node.a, buffer) for buffer in self.kept):
            return type(node)(node.b, node.a)
        if isinstance(node.b, tirx.Var):
            return _first_unless_nan(type(node), node.b, node.a)
        second = tirx.Var("second", dtype_name(node.ty))
        return tirx.Let(second, node.b, _first_unless_nan(type(node), second, node.a))


def _first_unless_nan(extreme: Any, variable: Any, other: Any) -> Any:
    return tirx.Select(tirx.EQ(variable, variable), extreme(variable, other), variable)


def _differs(node: Any) -> Any:
    return tirx.Not(tirx.EQ(node.a, node.b)) if _is_float(node.a) else node


def _is_of(value: Any, buffer: Any) -> bool:
    return isinstance(value, tvm.ir.TensorLoad) and value.source.same_as(buffer)


def _is_float(value: Any) -> bool:
    return dtype_name(value.ty).partition("x")[0] in FLOATS


def _is_number(value: Any) -> bool:
    """Whether a value is never NaN: a constant, or an integer converted, such as a dynamic dimension."""
    scalar = value.value if isinstance(value, tirx.Broadcast) else value
    is_converted = isinstance(scalar, tirx.Cast) and not _is_float(scalar.value)
    return is_converted or isinstance(scalar, tirx.FloatImm)
