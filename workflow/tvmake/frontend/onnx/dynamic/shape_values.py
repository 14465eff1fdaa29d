"""Represent integers that a network computes from its dynamic dimensions as expressions.

Every such value is a tensor with its expressions recorded. Arithmetic is done on the expressions, and operators that take a shape get
one. The network itself computes unknown values. Repair: `onnx-shape-expressions`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.frontend.lowering.bitcast import bitcast
from tvmake.ir.dimensions import is_known
from tvmake.ir.expressions import is_call

from tvm import relax, tirx  # isort: skip

Values = np.ndarray
"""An object array of ints and expressions."""

MAX_ELEMENTS = 64
"""Elements of the largest constant whose values are used."""

LARGEST_DIMENSION = 1 << 31

MOST_READ = 16
"""Elements of the largest tensor whose integers are read at run time: a number for each side of each axis."""

LARGEST_READ = 1 << 40
"""Integers that are read at run time are limited to this magnitude: bounds that mean "to the end" stay beyond every size."""

LARGEST_SIZE = 1 << 31
"""The largest size that the data give a tensor, and the largest number of its elements."""


class ShapeValues:
    """The values of integer tensors that are known while a network is imported."""

    def __init__(self, builder: Any):
        self.builder = builder
        self._known: dict[Any, Values] = {}
        self._known_as_floats: dict[Any, Values] = {}
        self._variables: set[Any] = set()
        self._analyzer = tvm.sym.Analyzer()
        self._read: dict[Any, Values] = {}
        self._read_variables: set[Any] = set()
        self._sizes: list[tuple[Any, Any]] = []
        self._sized: dict[Any, Any] = {}
        self._then_sizes: list[Any] = []

    @contextmanager
    def branch(self, condition: Any, is_then: bool) -> Iterator[None]:
        """Convert a branch's operators, which may check sizes only if the branch is taken.

        Args:
            condition: a boolean.
            is_then: the condition's value with which the branch is taken.
        """
        whole = self.builder.emit(relax.op.astype(condition, "int64"))
        (number,) = self._read_dimensions(whole, 1, "condition")
        outer, outer_sizes = self.builder.is_taken, self.builder.branch_sizes
        taken = number if is_then else 1 - number
        self.builder.is_taken = taken if outer is None else outer * taken
        sizes: list[EqualSizes] = []
        self.builder.branch_sizes = sizes
        try:
            yield
        finally:
            self.builder.is_taken, self.builder.branch_sizes = outer, outer_sizes
        if is_then:
            self._then_sizes.append(sizes)
        else:
            self.builder.require_in_both(self._then_sizes.pop(), sizes)

    def of(self, value: Any) -> Values | None:
        """The elements of a value; None if unknown."""
        if value is None:
            return None
        if isinstance(value, tvm.ir.GenericConst):
            constant = value.value.numpy()
            is_small = constant.dtype.kind in "ib" and constant.size <= MAX_ELEMENTS
            return constant.astype(object) if is_small else None
        if isinstance(value, relax.ShapeExpr):
            return as_array(list(value.values))
        if tvm.ir.is_prim_expr(value):
            return as_array(value)
        return self._known.get(value) if isinstance(value, relax.Var) else None

    def whole_numbers(self, value: Any) -> Values | None:
        """The elements of a value of any dtype; None if they are unknown or not integers."""
        if isinstance(value, tvm.ir.GenericConst):
            constant = value.value.numpy()
            is_small = constant.size <= MAX_ELEMENTS and bool(np.all(np.abs(constant) < LARGEST_DIMENSION))
            is_whole = is_small and np.all(constant == np.floor(constant))
            return constant.astype(np.int64).astype(object) if is_whole else None
        known = self.of(value)
        return self._known_as_floats.get(value) if known is None and isinstance(value, relax.Var) else known

    def read(self, value: Any) -> Values | None:
        """The elements of a value; integers that depend on the data become variables that are read when the network runs.

        None for a tensor that has no fixed length, several axes or no integers.
        """
        if value is None or (known := self.of(value)) is not None:
            return None if value is None else known
        if value in self._read:
            return self._read[value]
        if (known := self._read_operands(value)) is not None:
            return known
        kind, count = value.ty, fixed_length(value)
        if count is None or str(kind.dtype.dtype) not in ("int32", "int64"):
            return None
        # Dimensions are at least 0 for TVM's passes, so they have the distance to the least integer.
        low, high, distance = (relax.const(number, "int64") for number in (-LARGEST_READ, LARGEST_READ, LARGEST_READ))
        whole = self.builder.emit(relax.op.astype(value, "int64"))
        limited = self.builder.emit(relax.op.maximum(self.builder.emit(relax.op.minimum(whole, high)), low))
        variables = self._read_dimensions(self.builder.emit(relax.op.add(limited, distance)), count, "value")
        for variable in variables:
            self._declare(variable, 0, 2 * LARGEST_READ + 1)
        self._read_variables.update(variables)
        integers = [variable - as_expression(LARGEST_READ) for variable in variables]
        self._read[value] = as_array(integers).reshape([count] * kind.ndim)
        return self._read[value]

    def _read_operands(self, value: Any) -> Values | None:
        """The elements of a value that only rearranges others, some of which may be known; None for any other value."""
        source = self.builder.lookup_binding(value) if isinstance(value, relax.Var) else value
        count = fixed_length(value)
        if count is None or not is_call(source, "concat", "astype", "reshape", "expand_dims", "squeeze"):
            return None
        operand = source.args[0]
        parts = [self.read(part) for part in (operand.fields if isinstance(operand, relax.Tuple) else [operand])]
        if any(part is None for part in parts):
            return None
        return np.concatenate([part.reshape(-1) for part in parts]).reshape([count] * value.ty.ndim)  # type: ignore[union-attr]

    def read_floats(self, value: Any) -> Values | None:
        """The elements of a floating-point value: numbers, or expressions over variables that have the bits of an element."""
        if isinstance(value, tvm.ir.GenericConst):
            return value.value.numpy().astype(object)
        count = None if value is None else fixed_length(value)
        if count is None:
            return None
        bits = bitcast(self.builder, self.builder.emit(relax.op.astype(value, "float64")), "int64")
        variables = self._read_dimensions(bits, count, "bits")
        floats = [tirx.Cast("float32", tirx.reinterpret("float64", variable)) for variable in variables]
        return as_array(floats).reshape([count] * value.ty.ndim)

    def with_sizes(self, tensor: Any) -> Any:
        """A tensor whose dimensions shapes can contain (see :meth:`size`)."""
        tensor = self.builder.emit(tensor)
        if not any(map(self.depends_on_data, tensor.ty.shape.values)):
            return tensor
        shape = [self.size(extent) for extent in tensor.ty.shape.values]
        # The first cast removes the expressions, with which passes would replace the dimensions.
        of_any_size = self.builder.match_cast(tensor, relax.TensorType(dtype=tensor.ty.dtype, ndim=len(shape)))
        return self.builder.match_cast(of_any_size, relax.TensorType(list(map(as_expression, shape)), tensor.ty.dtype))

    def with_new_sizes(self, tensor: Any) -> Any:
        """A tensor of unknown sizes with a new dimension for each."""
        if tensor not in self._sized:
            sizes = [tirx.Var(self.builder.get_unique_name("size"), "int64") for _ in range(tensor.ty.ndim)]
            for size in sizes:
                self._declare(size, 0, LARGEST_SIZE + 1)
            self._sized[tensor] = self.builder.match_cast(tensor, relax.TensorType(sizes, tensor.ty.dtype))
        return self._sized[tensor]

    def size(self, size: Any) -> Any:
        """A size that shapes can contain: what is computed from the data becomes a dimension of its own."""
        if not self.depends_on_data(size):
            return size
        if not isinstance(size := self._simplify(size), tvm.ir.Expr):
            return size
        for known, dimension in self._sizes:
            if tvm_ffi.structural_equal(known, size):
                return dimension
        allowed = self.least(self.greatest(size, 0), LARGEST_SIZE)
        self.require(size, allowed)
        if self.builder.is_taken is not None:
            allowed = self.builder.is_taken * allowed
        tensor = self.builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr([allowed])))
        (dimension,) = self._read_dimensions(tensor, 1, "size")
        self._declare(dimension, 0, LARGEST_SIZE + 1)
        self._sizes.append((size, dimension))
        return dimension

    def target(self, shape: list[Any]) -> list[Any]:
        """The shape of a tensor that grows to it: sizes as in :meth:`size`, with at most ``LARGEST_SIZE`` elements."""
        if not any(map(self.depends_on_data, shape)):
            return shape
        sizes = list(map(self.size, shape))
        count: Any = 1
        for size in sizes:
            product = count * size
            count = self.least(product, LARGEST_SIZE)
            self.require(product, count)
        return sizes

    def depends_on_data(self, value: Any) -> bool:
        """Whether a size contains integers that are read when the network runs."""
        variables = tirx.analysis.undefined_vars(value) if isinstance(value, tvm.ir.Expr) else ()
        return any(variable in self._read_variables for variable in variables)

    def _read_dimensions(self, tensor: Any, count: int, name: str) -> list[Any]:
        """Dimensions with the elements of a tensor of int64."""
        flat = tensor if len(tensor.ty.shape.values) == 1 else self.builder.emit(relax.op.reshape(tensor, [count]))
        variables = [tirx.Var(self.builder.get_unique_name(name), "int64") for _ in range(count)]
        self.builder.match_cast(self.builder.emit(relax.op.tensor_to_shape(flat)), relax.ShapeType(variables))
        return variables

    def note_cast(self, value: Any, cast: Any) -> Any:
        """Record the values of a cast to a floating-point type; returns the cast as a variable if they are recorded."""
        values = self.of(value)
        if values is None or not is_symbolic(values) or not isinstance(cast, relax.Expr) or cast in self._known:
            return cast
        cast = cast if isinstance(cast, relax.Var) else self.builder.emit(cast)
        self._known_as_floats[cast] = values
        return cast

    def tensor(self, values: Values, dtype: str = "int64") -> Any:
        """A tensor with these values; a constant if all are numbers."""
        values = as_array([self._simplify(value) for value in values.reshape(-1)]).reshape(values.shape)
        if not is_symbolic(values):
            return relax.const(values.astype(dtype), dtype)
        flat = [
            value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))
            for value in values.reshape(-1)
        ]
        result = self.builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr(flat)))
        if values.ndim != 1:
            result = self.builder.emit(relax.op.reshape(result, list(values.shape)))
        if dtype != "int64":
            result = self.builder.emit(relax.op.astype(result, dtype))
        self._known[result] = values
        return result

    def to_tensor(self, value: Any) -> Any:
        """A shape or a number from TVM's importer as a tensor; other values unchanged."""
        is_shape = isinstance(value, relax.ShapeExpr) or (isinstance(value, tvm.ir.Expr) and tvm.ir.is_prim_expr(value))
        values = self.of(value) if is_shape else None
        return value if values is None else self.tensor(values)

    def bounds(self, value: Any) -> tuple[int, int]:
        """The least and the greatest possible value."""
        if not isinstance(value, tvm.ir.Expr):
            return int(value), int(value)

        for variable in tirx.analysis.undefined_vars(value):
            self._declare(variable, 0, LARGEST_DIMENSION)
        bound = self._analyzer.const_int_bound(value)
        return int(bound.min_value), int(bound.max_value)

    def _declare(self, variable: Any, low: int, high: int) -> None:
        """Set the bounds of a variable that has none."""
        if variable not in self._variables:
            self._variables.add(variable)
            self._analyzer.bind(variable, tvm.ir.Range(tirx.IntImm("int64", low), tirx.IntImm("int64", high)))

    def difference(self, first: Any, second: Any) -> tuple[int, int]:
        """The bounds of a difference."""
        return self.bounds(self._simplify(first - second))

    def require(self, extent: Any, wanted: Any) -> None:
        """Make the package check that two dimensions are equal before it computes with them; in a branch, if it is taken."""
        if self.difference(extent, wanted) != (0, 0):
            sizes = EqualSizes(as_expression(extent), as_expression(wanted), self.builder.operator)
            self.builder.require_equal(sizes)

    def _simplify(self, value: Any) -> Any:
        if not isinstance(value, tvm.ir.Expr):
            return int(value) if not isinstance(value, bool | np.bool_) else bool(value)
        self.bounds(value)  # declares its variables
        simple = self._analyzer.simplify(value)
        return int(simple) if isinstance(simple, tirx.IntImm) else simple

    def least(self, first: Any, second: Any) -> Any:
        """The smaller of two values: one of them if the bounds decide it, else an expression."""
        low, high = self.difference(first, second)
        return first if high <= 0 else second if low >= 0 else tirx.min(*map(as_expression, (first, second)))

    def greatest(self, first: Any, second: Any) -> Any:
        """The larger of two values, like :meth:`least`."""
        low, high = self.difference(first, second)
        return second if high <= 0 else first if low >= 0 else tirx.max(*map(as_expression, (first, second)))


def fixed_length(value: Any) -> int | None:
    """The number of elements of a scalar or a list that is short enough to be read; None for any other tensor."""
    kind = value.ty
    shape = kind.shape if isinstance(kind, relax.TensorType) else None
    if not isinstance(shape, relax.ShapeExpr) or len(shape.values) > 1 or not all(map(is_known, shape.values)):
        return None
    count = prod(map(int, shape.values))
    return count if 0 < count <= MOST_READ else None


def as_array(values: Any) -> Values:
    """Values as an object array; numpy must not convert expressions."""
    elements = values if isinstance(values, list) else [values]
    array = np.empty(len(elements), object)
    for index, element in enumerate(elements):
        array[index] = int(element) if isinstance(element, tirx.IntImm) else element
    return array if isinstance(values, list) else array.reshape(())


def as_expression(value: Any) -> Any:
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


def is_symbolic(values: Values) -> bool:
    return any(isinstance(value, tvm.ir.Expr) for value in values.reshape(-1))


def shape_of(value: Any) -> list[Any] | None:
    """The dimensions of a tensor; None if unknown."""
    shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
    return [as_array(extent)[()] for extent in shape.values] if isinstance(shape, relax.ShapeExpr) else None
