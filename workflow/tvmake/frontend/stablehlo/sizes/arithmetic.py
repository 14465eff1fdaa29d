"""Integers and booleans that follow from dynamic dimensions and the counters of loops, as arrays of TVM's expressions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import lcm
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.size_expressions import divisors

from tvm import tirx  # isort: skip

LARGEST_SIZE = 1 << 31

MOST_REMAINDERS = 16
"""The largest divisor for which a comparison is proved for each remainder."""

_SAMPLES = [(a, b) for a in range(-7, 8) for b in (-3, -2, 1, 2, 5)]


class SizeArray(np.ndarray):
    """An object array of ints, bools and expressions, with the dtype that the program declares."""

    declared: str

    def __array_finalize__(self, source: Any) -> None:
        """Keep the declared dtype of the array that this one is a view of."""
        self.declared = getattr(source, "declared", "int64")


def as_sizes(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values as an array of sizes; a plain array if all are known."""
    if not is_symbolic(values):
        return np.asarray([plain(value) for value in values.reshape(-1)]).reshape(values.shape).astype(dtype)
    result = np.array(values, dtype=object, copy=True).view(SizeArray)
    result.declared = dtype
    return result


def plain(value: Any) -> Any:
    """An element as a Python number if it is known."""
    return int(value) if isinstance(value, tirx.IntImm | np.integer | np.bool_) else value


def is_symbolic(value: Any) -> bool:
    """Whether a value is an array with elements that are known at run time only."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == object
        and any(isinstance(plain(element), tvm.ir.Expr) for element in value.reshape(-1))
    )


def expression(value: Any) -> Any:
    """An element as an expression."""
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


class SizeArithmetic:
    """Computes with sizes, and proves comparisons of them."""

    def __init__(self) -> None:
        self.analyzer = tvm.sym.Analyzer()
        self.counters: dict[Any, Any] = {}
        """For a loop's counter, the number of its iterations."""

    def bind_dimension(self, variable: Any, least: int = 0, most: int | None = None) -> None:
        """Declare the bounds of a dimension."""
        bound = tvm.sym.ConstIntBound(least, LARGEST_SIZE if most is None else most)
        self.analyzer.update(variable, bound, True)

    def bind_counter(self, variable: Any, count: Any) -> None:
        """Declare a counter of iterations."""
        self.counters[variable] = count
        self.analyzer.bind(variable, tvm.ir.Range(tirx.IntImm("int64", 0), expression(count)))

    def has_counter(self, value: Any) -> bool:
        """Whether an element depends on a loop's counter."""
        return isinstance(value, tvm.ir.Expr) and any(
            variable in self.counters for variable in tirx.analysis.undefined_vars(value)
        )

    def simplify(self, value: Any) -> Any:
        """An element in its simplest form."""
        return plain(self.analyzer.simplify(value)) if isinstance(value, tvm.ir.Expr) else plain(value)

    def is_at_most(self, first: Any, second: Any) -> bool:
        """Whether an integer is proved to be at most another one."""
        difference = self.simplify(second - first)
        if isinstance(difference, int):
            return difference >= 0
        return self.analyzer.can_prove(first <= second) or self._is_natural(difference)

    def _is_natural(self, value: Any) -> bool:
        """Whether an expression is proved to be at least 0."""
        value = self.simplify(value)
        if isinstance(value, int):
            return value >= 0
        if self.analyzer.can_prove(value >= 0):
            return True
        variables = tirx.analysis.undefined_vars(value)
        if (counter := next((variable for variable in variables if variable in self.counters), None)) is not None:
            last = self.counters[counter] - 1
            first, second, third = (self.simplify(_replace(value, counter, number)) for number in (0, 1, 2))
            is_linear = self.simplify(third - second - second + first) == 0
            return is_linear and all(self._is_natural(_replace(value, counter, end)) for end in (0, last))
        period = lcm(*divisors(value))
        if period == 1 or period > MOST_REMAINDERS or len(variables) != 1:
            return False
        (variable,) = variables
        bound = self.analyzer.const_int_bound(variable)
        quotient = tirx.Var(f"{variable.name}_quotient", "int64")
        for remainder in range(period):
            least = max(0, -(-(int(bound.min_value) - remainder) // period))
            self.bind_dimension(quotient, least)
            case = self.simplify(_replace(value, variable, quotient * period + remainder))
            if not (case >= 0 if isinstance(case, int) else self.analyzer.can_prove(case >= 0)):
                return False
        return True

    def least(self, first: Any, second: Any) -> Any:
        """The smaller of two integers."""
        if self.is_at_most(first, second):
            return first
        if self.is_at_most(second, first):
            return second
        return tirx.min(expression(first), expression(second))

    def greatest(self, first: Any, second: Any) -> Any:
        """The larger of two integers."""
        if self.is_at_most(first, second):
            return second
        if self.is_at_most(second, first):
            return first
        return tirx.max(expression(first), expression(second))

    def are_equal(self, first: Any, second: Any) -> bool:
        """Whether two integers are proved to be equal."""
        difference = self.simplify(first - second)
        return difference == 0 if isinstance(difference, int) else False

    def have_same_shape(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        """Whether two shapes are proved to be equal."""
        return len(first) == len(second) and all(
            a == b if isinstance(a, int) and isinstance(b, int) else self.are_equal(a, b)
            for a, b in zip(first, second, strict=True)
        )

    def evaluate(self, name: str, operands: Sequence[np.ndarray], dtype: str) -> np.ndarray | None:
        """Apply an element-wise operator, by its name without the dialect; None if it has no expression."""
        function = self._functions().get(name)
        if function is None or (name == "convert" and not dtype.startswith(("int", "uint"))):
            return None
        arrays = np.broadcast_arrays(*(operand.astype(object).view(np.ndarray) for operand in operands))
        elements = []
        for values in zip(*(array.reshape(-1) for array in arrays), strict=True):
            element = function(*map(plain, values))
            if element is None:
                return None
            elements.append(self.simplify(element))
        result = np.empty(len(elements), object)
        result[:] = elements
        return as_sizes(result.reshape(arrays[0].shape), dtype)

    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "negate": lambda a: -a,
            "maximum": self.greatest,
            "minimum": self.least,
            "clamp": lambda low, value, high: self.least(self.greatest(value, low), high),
            "divide": lambda a, b: self._quotient(a, b, False),
            "remainder": lambda a, b: self._quotient(a, b, True),
            "floor_divide": self._floor_divide,
            "floor_mod": tirx.floormod,
            "sign": self._sign,
            "select": self._select,
            "convert": lambda a: a if not _is_condition(a) else None,
            "compare EQ": self._equal,
            "compare NE": lambda a, b: _negate(self._equal(a, b)),
            "compare LE": self._compare,
            "compare GE": lambda a, b: self._compare(b, a),
            "compare LT": lambda a, b: _negate(self._compare(b, a)),
            "compare GT": lambda a, b: _negate(self._compare(a, b)),
            "and": lambda a, b: _both(a, b, True),
            "or": lambda a, b: _both(a, b, False),
            "not": lambda a: _negate(a) if _is_condition(a) or isinstance(a, bool) else None,
        }

    def _quotient(self, first: Any, second: Any, is_remainder: bool) -> Any:
        """The quotient or the remainder of integers that are not negative; None for others."""
        if not self.is_at_most(0, first) or not self.is_at_most(1, second):
            return None
        first, second = expression(first), expression(second)
        return tirx.floormod(first, second) if is_remainder else tirx.floordiv(first, second)

    def _floor_divide(self, first: Any, second: Any) -> Any:
        """A floored quotient; that of a negative dividend as the negative of a quotient that is rounded up."""
        first, second = expression(first), expression(second)
        if not self.is_at_most(0, first) and self.is_at_most(first, 0):
            return -tirx.floordiv(self.simplify(second - 1 - first), second)
        return tirx.floordiv(first, second)

    def _sign(self, value: Any) -> Any:
        if self.is_at_most(1, value):
            return 1
        return self.least(value, 1) if self.is_at_most(0, value) else None

    def _select(self, condition: Any, first: Any, second: Any) -> Any:
        if isinstance(condition, int):
            return first if condition else second
        if _is_condition(first) or _is_condition(second):
            return None
        return first if self.simplify(first - second) == 0 else None

    def _compare(self, first: Any, second: Any) -> Any:
        """Whether an integer is at most another one: a number if it is proved, else an expression."""
        if _is_condition(first) or _is_condition(second):
            return None
        if self.is_at_most(first, second):
            return 1
        return 0 if self.is_at_most(second + 1, first) else tirx.LE(expression(first), expression(second))

    def _equal(self, first: Any, second: Any) -> Any:
        if _is_condition(first) or _is_condition(second):
            return None
        if self.are_equal(first, second):
            return 1
        if self.is_at_most(second + 1, first) or self.is_at_most(first + 1, second):
            return 0
        return tirx.EQ(expression(first), expression(second))


def _is_condition(value: Any) -> bool:
    return isinstance(value, tvm.ir.Expr) and str(value.ty.dtype) == "bool"


def _negate(value: Any) -> Any:
    if value is None:
        return None
    return int(not value) if isinstance(value, int) else tirx.Not(value)


def _both(first: Any, second: Any, is_and: bool) -> Any:
    """A conjunction or disjunction; of conditions with at least one that is known."""
    for value, rest in ((first, second), (second, first)):
        if isinstance(value, int):
            return rest if bool(value) == is_and else value
    return (tirx.And if is_and else tirx.Or)(first, second) if _is_condition(first) and _is_condition(second) else None


def _replace(value: Any, variable: Any, replacement: Any) -> Any:
    if not isinstance(value, tvm.ir.Expr):
        return value
    new = expression(replacement)
    return tvm_ffi.structural_map(value, (tvm.ir.Var, lambda found: new if found.same_as(variable) else found))


def replace_variables(value: Any, replacements: Mapping[Any, Any]) -> Any:
    """An element with other variables."""
    if not isinstance(value, tvm.ir.Expr):
        return value
    return tvm_ffi.structural_map(value, (tvm.ir.Var, lambda found: replacements.get(found, found)))


def variables_of(values: Iterable[Any]) -> list[Any]:
    """The distinct variables in sizes, in order."""
    found: dict[Any, None] = {}
    for value in values:
        if isinstance(value, tvm.ir.Expr):
            found.update(dict.fromkeys(tirx.analysis.undefined_vars(value)))
    return list(found)


FLOOR_OPERATORS = {
    "floor_divide": "floor_divide",
    "remainder": "floor_mod",
    "floor_mod": "floor_mod",
    "mod": "floor_mod",
}
"""The operator of jax' private functions for integer division, by the function's name."""


def is_floor_operator(name: str, run: Callable[[int, int], int]) -> bool:
    """Whether a function of two integers has the values of a floored division, or of its remainder.

    Args:
        name: ``floor_divide`` or ``floor_mod``.
        run: the function.
    """
    wanted: Callable[[int, int], int] = (lambda a, b: a // b) if name == "floor_divide" else (lambda a, b: a % b)
    return all(run(a, b) == wanted(a, b) for a, b in _SAMPLES)
