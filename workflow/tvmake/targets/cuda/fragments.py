"""Intrinsics for NVIDIA's tensor cores: products of 16×16 matrices held by a warp (CUDA C++, "Warp matrix functions").

A fragment is such a matrix in the registers of a warp. :mod:`tvmake.targets.cuda.wmma` has the types that TVM has code
for, :mod:`tvmake.targets.cuda.tf32` has products in TF32. TVM's module with the same intrinsics
(``tvm.s_tir.tensor_intrin.cuda``) registers all types at import, which takes 15 s and more; this module creates only
the intrinsics that a kernel uses.
"""

import itertools
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from tvmake.targets.cuda import tf32, wmma

from tvm.script import tirx as T  # isort: skip
from tvm.s_tir import TensorIntrin  # isort: skip

SIDE = 16
"""Rows and columns of every fragment."""

SHARED = "shared.dyn"
"""The scope that fragments are loaded from and stored to: shared memory sized at launch, up to the GPU's limit."""

PAIRS = (("float16", "float16"), ("float16", "float32"))
"""Dtypes of operands and of sums."""

IN_TF32 = ("float32", "float32")
"""Dtypes of products in TF32, if the network allows it."""


@dataclass(frozen=True)
class Fragments:
    """The intrinsics for one kind of product."""

    operand: str
    result: str
    is_right_transposed: bool
    """Whether columns of the right operand are contiguous in memory."""
    is_right_first: bool
    """Whether the kernel multiplies the right operand by the left one."""

    @property
    def is_single(self) -> bool:
        """Whether operands are float32, multiplied in TF32."""
        return self.operand == "float32"

    @property
    def calls(self) -> ModuleType:
        """The module with the functions that the intrinsics call."""
        return tf32 if self.is_single else wmma

    @property
    def results(self) -> str:
        """The scope of stored results.

        Repair: `cuda-shared-fragments`.
        """
        return SHARED if self.operand == self.result else "shared"

    def clear(self) -> str:
        """The intrinsic that sets sums to zero."""
        return _register(f"clear.{self.result}", self.calls, _clear, self.result)

    def load_left(self) -> str:
        """The intrinsic that loads a fragment of the left operand."""
        return _register(f"left.{self.operand}", self.calls, _load, self.operand, "left")

    def load_right(self) -> str:
        """The intrinsic that loads a fragment of the right operand."""
        name = "columns" if self.is_right_transposed else "right"
        return _register(f"{name}.{self.operand}", self.calls, _load, self.operand, name)

    def multiply(self) -> str:
        """The intrinsic that adds a product to sums."""
        order = (
            f"{'transposed' if self.is_right_transposed else 'multiply'}{'.reversed' if self.is_right_first else ''}"
        )
        kind = (self.operand, self.result, self.is_right_transposed, self.is_right_first)
        return _register(f"{order}.{self.operand}.{self.result}", self.calls, _multiply, *kind)

    def store(self) -> str:
        """The intrinsic that writes sums."""
        return _register(f"store.{self.results}.{self.result}", self.calls, _store, self.result, self.results)


def register_fragments() -> None:
    """Register all intrinsics, so that traces may name them."""
    for operand, result in (*PAIRS, IN_TF32):
        for is_transposed, is_first in itertools.product((False, True), repeat=2):
            kind = Fragments(operand, result, is_transposed, is_first)
            for name in (kind.clear, kind.load_left, kind.load_right, kind.multiply, kind.store):
                name()


@cache
def _register(name: str, calls: ModuleType, make: Any, *types: Any) -> str:
    full = f"tvmake.{calls.__name__.rpartition('.')[-1]}.{name}"
    TensorIntrin.register(full, *make(calls, *types), override=True)
    return full


def _number(buffer: Any, stride: Any) -> Any:
    """The index of a fragment in its warp, row by row."""
    return buffer.elem_offset // stride // SIDE * (stride // SIDE) + buffer.elem_offset % stride // SIDE


def _clear(calls: ModuleType, dtype: str) -> tuple[Any, Any]:
    zero, scope = T.Cast(dtype, 0), calls.SUMS

    @T.prim_func(s_tir=True)
    def formula(c: T.handle) -> None:
        C = T.match_buffer(c, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=scope)
        with T.sblock("root"):
            T.reads()
            T.writes(C[0:SIDE, 0:SIDE])
            for i, j in T.grid(SIDE, SIDE):
                with T.sblock("clear"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = zero

    @T.prim_func(s_tir=True)
    def instruction(c: T.handle) -> None:
        row = T.int32()
        column = T.int32()
        C = T.match_buffer(c, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=scope, strides=[row, column])
        with T.sblock("root"):
            T.reads()
            T.writes(C[0:SIDE, 0:SIDE])
            T.evaluate(calls.clear(C.data, _number(C, row)))

    return formula, instruction


def _load(calls: ModuleType, dtype: str, name: str) -> tuple[Any, Any]:
    def load(memory: Any, row: Any, fragment: Any, fragment_row: Any) -> Any:
        values = memory.access_ptr("r", ptr_type=dtype)
        return calls.load(name, fragment.data, _number(fragment, fragment_row), values, row)

    return _move(dtype, SHARED, calls.LEFT if name == "left" else calls.RIGHT, load)


def _store(calls: ModuleType, dtype: str, scope: str) -> tuple[Any, Any]:
    def store(fragment: Any, fragment_row: Any, memory: Any, row: Any) -> Any:
        values = memory.access_ptr("w", ptr_type=dtype)
        return calls.store(fragment.data, _number(fragment, fragment_row), values, row)

    return _move(dtype, calls.SUMS, scope, store)


def _move(dtype: str, source: str, destination: str, call: Any) -> tuple[Any, Any]:
    """Move a fragment between scopes, by a call with both tensors and their row strides."""

    @T.prim_func(s_tir=True)
    def formula(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=source)
        C = T.match_buffer(c, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=destination)
        with T.sblock("root"):
            T.reads(A[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            for i, j in T.grid(SIDE, SIDE):
                with T.sblock("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    @T.prim_func(s_tir=True)
    def instruction(a: T.handle, c: T.handle) -> None:
        a_row = T.int32()
        a_column = T.int32()
        row = T.int32()
        column = T.int32()
        A = T.match_buffer(
            a, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=source, strides=[a_row, a_column]
        )
        C = T.match_buffer(
            c, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=destination, strides=[row, column]
        )
        with T.sblock("root"):
            T.reads(A[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            T.evaluate(call(A, a_row, C, row))

    return formula, instruction


def _multiply(
    calls: ModuleType, operand: str, result: str, is_transposed: bool, is_right_first: bool
) -> tuple[Any, Any]:
    sums = calls.SUMS
    first, second = (calls.RIGHT, calls.LEFT) if is_right_first else (calls.LEFT, calls.RIGHT)

    def widened(value: Any) -> Any:
        return T.Cast(result, value) if operand != result else value

    def place(is_left: bool, i: Any, j: Any, k: Any) -> tuple[Any, Any]:
        if is_left:
            return i, k
        return (j, k) if is_transposed else (k, j)

    @T.prim_func(s_tir=True)
    def formula(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (SIDE, SIDE), operand, align=64, offset_factor=SIDE, scope=first)
        B = T.match_buffer(b, (SIDE, SIDE), operand, align=64, offset_factor=SIDE, scope=second)
        C = T.match_buffer(c, (SIDE, SIDE), result, align=64, offset_factor=SIDE, scope=sums)
        with T.sblock("root"):
            T.reads(C[0:SIDE, 0:SIDE], A[0:SIDE, 0:SIDE], B[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            for i, j, k in T.grid(SIDE, SIDE, SIDE):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    one = T.meta_var(place(not is_right_first, vi, vj, vk))
                    other = T.meta_var(place(is_right_first, vi, vj, vk))
                    C[vi, vj] = C[vi, vj] + widened(A[one[0], one[1]]) * widened(B[other[0], other[1]])

    def multiply(fragment: Any, number: Any, operands: list[Any]) -> Any:
        (left, left_number), (right, right_number) = reversed(operands) if is_right_first else operands
        return calls.multiply(fragment, number, left, left_number, right, right_number)

    @T.prim_func(s_tir=True)
    def instruction(a: T.handle, b: T.handle, c: T.handle) -> None:
        a_row = T.int32()
        a_column = T.int32()
        b_row = T.int32()
        b_column = T.int32()
        row = T.int32()
        column = T.int32()
        A = T.match_buffer(
            a, (SIDE, SIDE), operand, align=64, offset_factor=SIDE, scope=first, strides=[a_row, a_column]
        )
        B = T.match_buffer(
            b, (SIDE, SIDE), operand, align=64, offset_factor=SIDE, scope=second, strides=[b_row, b_column]
        )
        C = T.match_buffer(c, (SIDE, SIDE), result, align=64, offset_factor=SIDE, scope=sums, strides=[row, column])
        with T.sblock("root"):
            T.reads(C[0:SIDE, 0:SIDE], A[0:SIDE, 0:SIDE], B[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            T.evaluate(multiply(C.data, _number(C, row), [(A.data, _number(A, a_row)), (B.data, _number(B, b_row))]))

    return formula, instruction
