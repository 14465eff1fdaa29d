"""Compute float16 kernels in float32, for processors without float16 arithmetic.

There LLVM rounds after each operation: one multiplication and one addition take six conversions. This pass converts
values when they are read and results when they are written; buffers within a kernel are float32, so sums are more
precise. A kernel with a construct that the pass does not support stays unchanged.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name, operator_name

tirx = tvm.tirx

HALF, SINGLE = "float16", "float32"

NATIVE = ("avx512fp16", "fullfp16", "zfh")
"""LLVM's features with float16 arithmetic."""

ARITHMETIC = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.Max, tirx.Min, tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE
)  # fmt: skip

FUNCTIONS = frozenset({
    "prim.if_then_else", "prim.ceil", "prim.log2", "tirx.exp", "tirx.exp2", "tirx.log", "tirx.log1p", "tirx.sqrt", "tirx.rsqrt",
    "tirx.tanh", "tirx.sigmoid", "tirx.erf", "tirx.pow", "tirx.floor", "tirx.round", "tirx.nearbyint", "tirx.trunc",
    "tirx.fabs", "tirx.sin", "tirx.cos",
})  # fmt: skip
"""Functions that compute the same in float32 as in float16."""


TYPED = frozenset({"tirx.tvm_stack_make_array"})
"""Functions where a float16 argument represents a dtype: tensors for library functions (sort, top k)."""


@tirx.transform.prim_func_pass(opt_level=0, name="HalfPrecision")
def compute_half_in_float32(func: Any, _module: Any, _context: Any) -> Any:
    target = (func.attrs or {}).get("target")
    if target is None or computes_half(target):
        return func
    widener = _Float32Widener(func.body)
    return func.with_body(widener.apply()) if widener.is_possible else func


def computes_half(target: "tvm.target.Target") -> bool:
    """Whether a target's processor has float16 arithmetic."""
    return any(tvm.target.codegen.target_has_features(feature, target) for feature in NATIVE)


class _Float32Widener:
    def __init__(self, body: Any):
        self.body = body
        self.buffers: dict[Any, Any] = {}
        """The float32 replacements of the kernel's internal float16 buffers."""
        self.has_half = False
        self.is_known = True
        tvm_ffi.structural_walk(
            body,
            [(tvm.s_tir.SBlock, self._note_block), (tvm.ir.Var, self._note_variable), (tvm.ir.Call, self._note_call)],
        )

    @property
    def is_possible(self) -> bool:
        """Whether the function uses float16, and only in supported constructs."""
        return self.has_half and self.is_known

    def _note_block(self, block: Any) -> None:
        self.buffers |= {
            buffer: tirx.decl_buffer(buffer.ty.shape, SINGLE, name=buffer.name)
            for buffer in block.alloc_buffers
            if _is_half(buffer)
        }
        self.is_known &= not block.match_buffers

    def _note_variable(self, variable: Any) -> None:
        is_half = _is_half(variable)
        self.has_half |= is_half
        self.is_known &= not is_half or isinstance(variable.ty, tvm.tirx.BufferType)

    def _note_call(self, call: Any) -> None:
        name = operator_name(call)
        self.is_known &= name not in TYPED and (not _is_half(call) or name in FUNCTIONS)

    def apply(self) -> Any:
        callbacks = [
            (tvm.ir.Var, lambda variable: self.buffers.get(variable, variable)),
            (tvm.ir.TensorLoad, self._load),
            (tirx.BufferStore, self._store),
            (tirx.FloatImm, lambda number: tirx.const(float(number.value), SINGLE) if _is_half(number) else number),
            (tirx.Cast, self._cast),
            (tirx.Select, lambda node: tirx.Select(node.condition, node.true_value, node.false_value)),
            (tvm.ir.Call, self._call),
            *((kind, self._operation) for kind in ARITHMETIC),
        ]
        return tvm_ffi.structural_map(self.body, callbacks)

    @staticmethod
    def _operation(node: Any) -> Any:
        # Dimensions are part of a buffer's type: another expression would make another buffer.
        return node if dtype_name(node.ty).startswith("int") else type(node)(node.a, node.b)

    @staticmethod
    def _load(load: Any) -> Any:
        if not _is_half(load):
            return load
        rebuilt = tirx.BufferLoad(load.source, load.indices)
        return tirx.Cast(SINGLE, rebuilt) if _is_half(rebuilt) else rebuilt

    @staticmethod
    def _store(store: Any) -> Any:
        dtype = dtype_name(store.buffer)
        if dtype == HALF and not _is_half(store.value):
            return tirx.BufferStore(store.buffer, tirx.Cast(HALF, store.value), store.indices)
        return store

    @staticmethod
    def _cast(cast: Any) -> Any:
        dtype = SINGLE if _is_half(cast) else dtype_name(cast.ty)
        return cast.value if dtype_name(cast.value.ty) == dtype else tirx.Cast(dtype, cast.value)

    @staticmethod
    def _call(call: Any) -> Any:
        return tirx.call_intrin(SINGLE, call.op, *call.args) if _is_half(call) else call


def _is_half(typed: Any) -> bool:
    ty = getattr(typed, "ty", typed)
    return hasattr(ty, "dtype") and dtype_name(ty) == HALF  # a call may return a pointer, or nothing
