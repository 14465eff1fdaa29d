"""Complex arithmetic on pairs of real values, written with the operators of a frontend's graph."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

Value = Any
"""A real value of the graph: a node, a variable or an array."""


class Pair(NamedTuple):
    """A complex value."""

    real: Value
    imaginary: Value


class ComplexArithmetic(ABC):
    """Writes complex arithmetic with a graph's operators on real values."""

    @abstractmethod
    def write(self, operator: str, *operands: Value) -> Value:
        """Write an operator on real operands.

        Args:
            operator: ``add``, ``atan2``, ``less``, ``log``, ``max``, ``multiply``, ``negate``, ``select``, ``sqrt`` or
                ``subtract``.
            operands: values; all but the first may be numbers.
        """

    def bilinear(self, product: Callable[[Value, Value], Value], left: Pair, right: Pair) -> Pair:
        """Apply an operation that is linear in both operands, given the operation on real values."""
        real = self.write("subtract", product(left[0], right[0]), product(left[1], right[1]))
        return Pair(real, self.write("add", product(left[0], right[1]), product(left[1], right[0])))

    def multiply(self, left: Pair, right: Pair) -> Pair:
        """The element-wise product."""
        return self.bilinear(lambda first, second: self.write("multiply", first, second), left, right)

    def squared_magnitude(self, pair: Pair) -> Value:
        """The square of the absolute value."""
        return self.write("add", self.write("multiply", pair[0], pair[0]), self.write("multiply", pair[1], pair[1]))

    def magnitude(self, pair: Pair) -> Value:
        """The absolute value."""
        return self.write("sqrt", self.squared_magnitude(pair))

    def log(self, pair: Pair) -> Pair:
        """The principal logarithm."""
        return Pair(self.write("log", self.magnitude(pair)), self.write("atan2", pair[1], pair[0]))

    def sqrt(self, pair: Pair) -> Pair:
        """The root in the right half of the plane."""
        size = self.magnitude(pair)
        real, imaginary = (
            self.write("sqrt", self.write("max", self.write("multiply", self.write(name, size, pair[0]), 0.5), 0))
            for name in ("add", "subtract")
        )
        is_below = self.write("less", pair[1], 0)
        return Pair(real, self.write("select", is_below, self.write("negate", imaginary), imaginary))
