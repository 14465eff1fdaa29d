"""Divide a softmax's row by its sum with one reciprocal and multiplications.

A vector division takes about as long as ten multiplications. The result is off by at most two units in the last place,
instead of half a unit.
"""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import map_body

from tvm import s_tir, tirx  # isort: skip

SHARES = "tvmake.shares"
"""The annotation of a block that divides a row's values by their sum."""


def is_softmax(last: Any, before: Sequence[Any]) -> bool:
    """Whether a block divides ``exp(x - max(x))`` by its sum: at least 1, so its reciprocal is precise enough.

    Args:
        before: the blocks before it, each of which writes one buffer.
    """
    value = last.body.value
    if not isinstance(value, tirx.Div) or not all(isinstance(load, tvm.ir.TensorLoad) for load in (value.a, value.b)):
        return False
    exponents, total = (
        [block for block in before if block.body.buffer.same_as(load.source)] for load in (value.a, value.b)
    )
    if not exponents or not total or dtype_name(value.ty) != "float32":
        return False
    exponent = exponents[0].body.value
    return (
        is_call(exponent, "tirx.exp")
        and isinstance(exponent.args[0], tirx.Sub)
        and _is_reduction(total[0], tirx.Add, exponents[0].body.buffer)
        and any(_is_reduction(block, tirx.Max) for block in before)
    )


def _is_reduction(block: Any, operator: Any, source: Any | None = None) -> bool:
    """Whether a block reduces a buffer by an operator."""
    value: Any = block.body.value
    if block.init is None or not isinstance(value, operator) or not isinstance(value.b, tvm.ir.TensorLoad):
        return False
    return source is None or bool(value.b.source.same_as(source))


@tirx.transform.prim_func_pass(opt_level=0, name="SoftmaxReciprocal")
def divide_by_reciprocal(func: Any, _module: Any, _context: Any) -> Any:
    """Replace divisions by multiplications in blocks with :data:`SHARES`."""
    return map_body(func, (s_tir.SBlock, _rewrite_block))


def _rewrite_block(block: Any) -> Any:
    if SHARES not in block.annotations:
        return block
    body = tvm_ffi.structural_map(block.body, (tirx.Div, _to_multiplication))
    annotations = {name: value for name, value in block.annotations.items() if name != SHARES}
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers, block.match_buffers,
        annotations,
    )  # fmt: skip


def _to_multiplication(division: Any) -> Any:
    if not isinstance(division.b, tvm.ir.TensorLoad):
        return division
    return division.a * (tirx.const(1, dtype_name(division.b.ty)) / division.b)
