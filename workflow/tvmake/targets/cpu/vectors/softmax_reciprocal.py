"""Divide a softmax's row by its sum with one reciprocal and multiplications.

A division of a vector takes about as long as ten multiplications. The result is off by at most two units in the last place, instead of half of one.
"""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name, is_call

from tvm import s_tir, tirx  # isort: skip

SHARES = "tvmake.shares"
"""The annotation of a block that divides a row's values by their sum."""


def is_softmax(last: Any, before: Sequence[Any]) -> bool:
    """Whether a block divides ``exp(x - max(x))``, which other blocks compute, by its sum: that is no less than 1, and its reciprocal exact enough.

    Args:
        last: the block.
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
        and _reduced(total[0], tirx.Add, exponents[0].body.buffer)
        and any(_reduced(block, tirx.Max) for block in before)
    )


def _reduced(block: Any, operator: Any, source: Any | None = None) -> bool:
    """Whether a block reduces a buffer by an operator."""
    value: Any = block.body.value
    if block.init is None or not isinstance(value, operator) or not isinstance(value.b, tvm.ir.TensorLoad):
        return False
    return source is None or bool(value.b.source.same_as(source))


@tirx.transform.prim_func_pass(opt_level=0, name="SoftmaxReciprocal")
class SoftmaxReciprocal:
    """Write the divisions in blocks with :data:`SHARES` as products."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such blocks rewritten; one without any as it is."""
        body = tvm_ffi.structural_map(func.body, (s_tir.SBlock, _rewritten))
        return func if body.same_as(func.body) else func.with_body(body)


def _rewritten(block: Any) -> Any:
    if SHARES not in block.annotations:
        return block
    body = tvm_ffi.structural_map(block.body, (tirx.Div, _product))
    annotations = {name: value for name, value in block.annotations.items() if name != SHARES}
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers, block.match_buffers,
        annotations,
    )  # fmt: skip


def _product(division: Any) -> Any:
    if not isinstance(division.b, tvm.ir.TensorLoad):
        return division
    return division.a * (tirx.const(1, dtype_name(division.b.ty)) / division.b)
