"""Complex arithmetic on pairs of real values, by the operators of whichever graph a frontend writes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

Value = Any
"""A real value of the graph: a node, a variable or an array."""


class Pair(NamedTuple):
    """The two parts of a complex value."""

    real: Value
    imaginary: Value


class ComplexArithmetic(ABC):
    """Writes complex arithmetic with a graph's operators on real values."""

    @abstractmethod
    def write(self, operator: str, *operands: Value) -> Value:
        """The value of an operator on real operands, of which the later ones may be numbers.

        Args:
            operator: ``add``, ``atan2``, ``less``, ``log``, ``max``, ``multiply``, ``negate``, ``select``, ``sqrt`` or
                ``subtract``.
            operands: as many as the operator takes.
        """

    def bilinear(self, product: Callable[[Value, Value], Value], left: Pair, right: Pair) -> Pair:
        """An operation that is linear in both operands, by what it is on real ones."""
        real = self.write("subtract", product(left[0], right[0]), product(left[1], right[1]))
        return Pair(real, self.write("add", product(left[0], right[1]), product(left[1], right[0])))

    def multiply(self, left: Pair, right: Pair) -> Pair:
        """The product of each two elements."""
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
