"""Calls for float32 fragments, which tensor cores multiply in TF32: 11 bits of mantissa instead of 24, with the same
range (PTX ISA, "Matrix fragments for mma.m16n8k8").

TVM has no code for such fragments. They are plain arrays, 8 of the 256 values in each thread of a warp; CUDA functions
define which.
"""

from typing import Any

from tvm.script import tirx as T  # isort: skip

LEFT = RIGHT = SUMS = "m16n8k8.matrixC"
"""TVM's storage scope for tensors distributed evenly over the registers of a warp's threads."""

HELD = 8
"""Values of a fragment in each thread."""

CLEAR = """
__device__ __forceinline__ void tvmake_tf32_clear(float* fragments, int first) {
  #pragma unroll
  for (int own = 0; own < 8; ++own) fragments[first + own] = 0.0f;
}
"""

LOAD = """
__device__ __forceinline__ float tvmake_tf32_NAME_number(float value) {
  unsigned nearest;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(nearest) : "f"(value));
  return __uint_as_float(nearest);
}

__device__ __forceinline__ void tvmake_tf32_NAME(float* fragments, int first, const float* memory, int row) {
  const int group = threadIdx.x / 4, place = threadIdx.x % 4;
  #pragma unroll
  for (int own = 0; own < 8; ++own) fragments[first + own] = tvmake_tf32_NAME_number(memory[WHERE]);
}
"""

PLACES = {
    "left": "(group + own % 2 * 8) * row + place + own / 2 * 4",
    "right": "(place + own / 4 * 8 + own % 2 * 4) * row + group + own % 4 / 2 * 8",
    "columns": "(group + own % 4 / 2 * 8) * row + place + own / 4 * 8 + own % 2 * 4",
}
"""Offsets of a thread's values: in the left operand, in the right one, and in a right one stored by columns."""

MULTIPLY = """
__device__ __forceinline__ void tvmake_tf32_multiply(float* sums, int sum, const float* lefts, int left, const float* rights, int right) {
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    float* to = sums + sum + step % 2 * 4;
    const float* row = lefts + left + step / 2 * 4;
    const float* column = rights + right + step / 2 * 4 + step % 2 * 2;
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
        : "r"(__float_as_uint(row[0])), "r"(__float_as_uint(row[1])), "r"(__float_as_uint(row[2])),
          "r"(__float_as_uint(row[3])), "r"(__float_as_uint(column[0])), "r"(__float_as_uint(column[1])));
  }
}
"""

STORE = """
__device__ __forceinline__ void tvmake_tf32_store(const float* fragments, int first, float* memory, int row) {
  const int group = threadIdx.x / 4, place = threadIdx.x % 4;
  #pragma unroll
  for (int own = 0; own < 8; ++own) memory[WHERE] = fragments[first + own];
}
"""

STORED = "(group + own % 4 / 2 * 8) * row + place * 2 + own / 4 * 8 + own % 2"
"""Offset of a thread's sums."""


def clear(fragments: Any, number: Any) -> Any:
    """Set a fragment of sums to zero; ``number`` is its index in the warp."""
    return _call("clear", CLEAR, fragments, number * HELD)


def load(name: str, fragments: Any, number: Any, memory: Any, row: Any) -> Any:
    """Load a fragment, rounded to the nearest TF32 values; ``row`` is the stride of its rows.

    Args:
        name: one of :data:`PLACES`.
    """
    source = LOAD.replace("NAME", name).replace("WHERE", PLACES[name])
    return _call(name, source, fragments, number * HELD, memory, row)


def multiply(sums: Any, number: Any, left: Any, left_number: Any, right: Any, right_number: Any) -> Any:
    """Add a product to sums."""
    return _call("multiply", MULTIPLY, sums, number * HELD, left, left_number * HELD, right, right_number * HELD)


def store(fragments: Any, number: Any, memory: Any, row: Any) -> Any:
    """Write sums to memory."""
    return _call("store", STORE.replace("WHERE", STORED), fragments, number * HELD, memory, row)


def _call(name: str, source: str, *arguments: Any) -> Any:
    return T.cuda.func_call(f"tvmake_tf32_{name}", *arguments, source_code=source)
