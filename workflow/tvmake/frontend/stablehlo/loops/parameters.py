"""The parameters of a loop's body: loop-carried values, and the values of the enclosing blocks that it reads."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmake.frontend.lowering.complex_arithmetic import Pair
from tvmake.frontend.stablehlo.conversion import Conversion, extents
from tvmake.frontend.stablehlo.loop_buffers import BufferRead, LoopBuffer
from tvmake.frontend.stablehlo.sizes.arithmetic import (
    LARGEST_SIZE,
    as_sizes,
    is_symbolic,
    plain,
    replace_variables,
    variables_of,
)

from tvm import relax, tirx  # isort: skip

SMALL_BYTES = 256
"""Smaller constants are copied into the body."""


@dataclass
class Parameters:
    """The values that a body takes, and what they are inside of it."""

    outer: Conversion
    inner: Conversion
    dimensions: dict[Any, Any] = field(default_factory=dict)
    """For a dimension of the enclosing function, the body's own variable."""
    arguments: list[Any] = field(default_factory=list)
    """Values of the enclosing function."""
    variables: list[Any] = field(default_factory=list)
    """The body's parameters."""
    is_unchanged: list[bool] = field(default_factory=list)
    known: dict[Any, np.ndarray] = field(default_factory=dict)
    """The values of parameters that are constants."""

    def size(self, value: Any) -> Any:
        """A size of the enclosing function in the body."""
        for variable in variables_of([value]):
            if variable not in self.dimensions:
                self.dimensions[variable] = own = tirx.Var(str(variable.name), "int64")
                bound = self.outer.sizes.analyzer.const_int_bound(variable)
                self.inner.sizes.bind_dimension(
                    own, max(int(bound.min_value), 0), min(int(bound.max_value), LARGEST_SIZE)
                )
        return replace_variables(value, self.dimensions)

    def add(self, value: Any, is_unchanged: bool) -> Any:
        """Pass a tensor; returns the body's parameter."""
        shape = [self.size(size) for size in extents(value)]
        variable = relax.Var(f"value_{len(self.variables)}", relax.TensorType(shape, str(value.ty.dtype)))
        self.arguments.append(value)
        self.variables.append(variable)
        self.is_unchanged.append(is_unchanged)
        return variable

    def constant(self, value: np.ndarray) -> Any:
        """Pass a constant."""
        variable = self.add(self.outer.whole(value), True)
        self.known[variable] = value
        return variable

    def add_dimensions(self) -> None:
        """Pass the dimensions."""
        if self.dimensions:
            self.arguments.append(relax.ShapeExpr(list(self.dimensions)))
            self.variables.append(relax.Var("dimensions", relax.ShapeType(list(self.dimensions.values()))))
            self.is_unchanged.append(True)

    def state(self, value: Any) -> Any:
        """Pass a loop-carried value; returns it in the body."""
        if isinstance(value, Pair):
            return Pair(*(self.state(part) for part in value))
        return self.add(self.outer.whole(value), False)

    def invariant(self, value: Any) -> Any:
        """A value that the body reads, in the body."""
        if isinstance(value, Pair):
            return Pair(*(self.invariant(part) for part in value))
        if isinstance(value, LoopBuffer):
            raise BufferRead(value)
        if is_symbolic(value):
            elements = [plain(element) for element in value.reshape(-1)]
            if not any(map(self.outer.sizes.has_counter, elements)):
                result = np.empty(len(elements), object)
                result[:] = [self.size(element) for element in elements]
                return as_sizes(result.reshape(value.shape), value.declared)
            return self.add(self.outer.whole(value), True)
        if isinstance(value, np.ndarray):
            is_repeated = all(step == 0 or size == 1 for step, size in zip(value.strides, value.shape, strict=True))
            return value if is_repeated or value.nbytes < SMALL_BYTES else self.constant(value)
        if value in self.outer.narrow:
            narrow = self.add(self.outer.narrow[value], True)
            return self.inner, narrow, [self.size(size) for size in extents(value)]
        return self.add(value, True)
