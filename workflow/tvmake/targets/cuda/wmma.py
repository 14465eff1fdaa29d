"""TVM's calls for float16 fragments: CUDA's matrix class (CUDA C++ programming guide, "Warp matrix functions")."""

from typing import Any

from tvm.script import tirx as T  # isort: skip

SIDES = (16, 16, 16)
"""Rows, columns and terms of a product."""

LEFT, RIGHT, SUMS = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"
"""TVM's storage scopes of fragments."""


def clear(fragments: Any, number: Any) -> Any:
    """Set a fragment of sums to zero; ``number`` is its index in the warp."""
    return T.tvm_fill_fragment(fragments, *SIDES, number, T.float32(0), dtype="void")


def load(name: str, fragments: Any, number: Any, memory: Any, row: Any) -> Any:
    """Load a fragment; ``row`` is the stride of its rows.

    Args:
        name: ``left`` or ``right`` operand, or ``columns``: a right operand stored by columns.
    """
    order = "col_major" if name == "columns" else "row_major"
    return T.tvm_load_matrix_sync(fragments, *SIDES, number, memory, row, order, dtype="void")


def multiply(sums: Any, number: Any, left: Any, left_number: Any, right: Any, right_number: Any) -> Any:
    """Add a product to sums."""
    return T.tvm_mma_sync(sums, number, left, left_number, right, right_number, sums, number, dtype="void")


def store(fragments: Any, number: Any, memory: Any, row: Any) -> Any:
    """Write sums to memory."""
    return T.tvm_store_matrix_sync(fragments, *SIDES, number, memory, row, "row_major", dtype="void")
