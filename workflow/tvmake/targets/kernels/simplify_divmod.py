"""Simplify quotients and remainders of sums by dropping terms that never carry.

The position in a kernel window and the channel are quotients and remainders of one index: the first index of an
iteration plus an offset of the thread, as in ``(64 * step + 4 * i + thread) % 384 // 128``. If 4 * i + thread is below
64, that equals ``step // 2 % 3``, which is constant in an iteration. Repair: `carries-of-divisions`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body

tirx = tvm.tirx


@tirx.transform.prim_func_pass(opt_level=0, name="SimplifyDivmod")
def simplify_divmod(func: Any, _module: Any, _context: Any) -> Any:
    """Drop terms that never carry from quotients and remainders by constants, in device functions."""
    indices = _Indices(func.body)
    kinds = (tirx.FloorDiv, tirx.FloorMod)
    return map_body(func, [(kind, indices.simplify) for kind in kinds])


@dataclass(frozen=True)
class _Sum:
    terms: Sequence[tuple[Any, int]]
    """Expressions and their factors."""
    constant: int

    def value(self) -> Any:
        """The sum as an expression; None without terms."""
        if not self.terms:
            return None
        first, *others = (term if factor == 1 else term * factor for term, factor in self.terms)
        total = sum(others, first)
        return total + self.constant if self.constant else total


class _Indices:
    """The ranges of a function's variables, and the values of variables for reused expressions."""

    def __init__(self, body: Any):
        self._analyzer = tvm.sym.Analyzer()
        self._values: dict[Any, Any] = {}
        self._ranges: dict[Any, tuple[int, int]] = {}
        walked = (
            (tirx.For, lambda loop: self._range(loop.loop_var, loop.min, loop.extent)),
            (tirx.AttrStmt, self._record_thread),
            (tirx.Bind, self._record_value),
        )
        tvm_ffi.structural_walk(body, list(walked))
        for variable, (first, end) in self._ranges.items():
            self._analyzer.bind(variable, tvm.ir.Range(first, end))

    def simplify(self, division: Any) -> Any:
        """A quotient or remainder, without the terms that never carry."""
        if (
            not isinstance(division.b, tirx.IntImm)
            or int(division.b) < 2
            or not dtype_name(division.ty).startswith("int")
        ):
            return division
        divisor, whole = int(division.b), self._sum(division.a)
        for unit in sorted({math.gcd(factor, divisor) for _, factor in whole.terms}, reverse=True):
            rest = _Sum([term for term in whole.terms if term[1] % unit], whole.constant % unit)
            if not rest.terms or not self._is_below(rest.value(), unit):
                continue
            multiples = [(term, factor // unit) for term, factor in whole.terms if not factor % unit]
            high = _Sum(multiples, whole.constant // unit).value()
            if high is None or unit == 1:
                continue
            count = divisor // unit
            if isinstance(division, tirx.FloorDiv):
                return tirx.floordiv(high, count) if count > 1 else high
            return tirx.floormod(high, count) * unit + rest.value() if count > 1 else rest.value()
        return division

    def _is_below(self, value: Any, limit: int) -> bool:
        bound = self._analyzer.const_int_bound(value)
        return int(bound.min_value) >= 0 and int(bound.max_value) < limit

    def _sum(self, value: Any) -> _Sum:
        factors: dict[Any, int] = {}
        constant = self._add(value, 1, factors)
        return _Sum([(term, factor) for term, factor in factors.items() if factor], constant)

    def _add(self, value: Any, factor: int, factors: dict[Any, int]) -> int:
        """Add the terms of a value times a factor; returns its constant."""
        match value:
            case tirx.IntImm():
                return factor * int(value)
            case tirx.Add():
                return self._add(value.a, factor, factors) + self._add(value.b, factor, factors)
            case tirx.Sub():
                return self._add(value.a, factor, factors) + self._add(value.b, -factor, factors)
            case tirx.Mul() if isinstance(value.b, tirx.IntImm):
                return self._add(value.a, factor * int(value.b), factors)
            case _ if value in self._values:
                return self._add(self._values[value], factor, factors)
            case _:
                factors[value] = factors.get(value, 0) + factor
                return 0

    def _record_value(self, bind: Any) -> None:
        """Record the value of a variable, unless it depends on loads or calls."""
        changing: list[Any] = []
        tvm_ffi.structural_walk(bind.value, [(kind, changing.append) for kind in (tvm.ir.expr.TensorLoad, tvm.ir.Call)])
        if not changing:
            self._values[bind.var] = bind.value

    def _record_thread(self, attribute: Any) -> None:
        if str(attribute.attr_key) == "thread_extent":
            self._range(attribute.node.var, 0, attribute.value)

    def _range(self, variable: Any, first: Any, extent: Any) -> None:
        if not isinstance(first, int | tirx.IntImm) or not isinstance(extent, tirx.IntImm):
            return
        division = (int(first), int(first) + int(extent))
        before = self._ranges.get(variable, division)
        self._ranges[variable] = min(before[0], division[0]), max(before[1], division[1])
