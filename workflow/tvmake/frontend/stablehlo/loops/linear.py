"""Linear functions of a loop's rows and states, with known weights: matmuls, sums, slices and concatenations of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvmake.frontend.stablehlo.sizes.arithmetic import plain
from tvmake.ir.expressions import is_call

from tvm import relax  # isort: skip


@dataclass(frozen=True)
class Linear:
    """The sum of matmuls of matrices [batch, n] with weights [n, features], and a bias [features]."""

    weights: Mapping[Any, np.ndarray]
    """Weights by the variable of the matrix."""
    bias: np.ndarray
    is_transposed: bool = False
    """Whether the value is [features, batch]."""

    def part(self, source: Any) -> np.ndarray:
        """The weights of a matrix; zeros for one that the function does not read."""
        return self.weights[source]

    def apply(self, function: Callable[[np.ndarray], np.ndarray]) -> "Linear":
        """The function with other features, each a function of the ones before."""
        weights = {source: function(weight) for source, weight in self.weights.items()}
        return Linear(weights, function(self.bias[None])[0], self.is_transposed)

    def add(self, other: "Linear", sign: int = 1) -> "Linear | None":
        """The sum or the difference; None if one is transposed."""
        if self.is_transposed != other.is_transposed or self.bias.shape != other.bias.shape:
            return None
        weights = dict(self.weights)
        for source, weight in other.weights.items():
            weights[source] = weights[source] + sign * weight if source in weights else sign * weight
        return Linear(weights, self.bias + sign * other.bias, self.is_transposed)


@dataclass
class LinearAnalysis:
    """Finds the linear functions in a loop's body."""

    lookup: Callable[[Any], Any]
    """The expression that a variable is bound to; None for parameters."""
    known: Mapping[Any, np.ndarray]
    """Values of parameters."""
    states: Collection[Any]
    """Variables of matrices [batch, n]."""
    rows: Mapping[Any, Any]
    """For a row [1, batch, n] of an array, the array."""
    found: dict[Any, Any] = field(default_factory=dict)

    def of(self, value: Any) -> "Linear | np.ndarray | None":
        """A linear function, or a known array; None for other values."""
        if isinstance(value, tvm.ir.GenericConst):
            return value.value.numpy()
        if value not in self.found:
            self.found[value] = self._analyse(value)
        return self.found[value]

    def _analyse(self, value: Any) -> "Linear | np.ndarray | None":
        if value in self.known:
            return self.known[value]
        if value in self.states:
            return _identity(value, value)
        call = self.lookup(value)
        if is_call(call, "reshape") and call.args[0] in self.rows and call.ty.ndim == 2:
            return _identity(value, self.rows[call.args[0]])
        if isinstance(call, tvm.ir.GenericConst | relax.Var):
            return self.of(call)
        if not isinstance(call, relax.Call):
            return None
        if is_call(call, "concat"):
            return self._concatenation(call)
        operands = [
            self.of(operand) for operand in call.args if isinstance(getattr(operand, "ty", None), relax.TensorType)
        ]
        if not operands or any(operand is None for operand in operands):
            return None
        if all(isinstance(operand, np.ndarray) for operand in operands):
            return _compute(call, operands)
        if is_call(call, "add", "subtract"):
            return self._sum(call, operands)
        if is_call(call, "matmul"):
            return _matmul(*operands)
        [linear] = operands[:1]
        if not isinstance(linear, Linear):
            return None
        if is_call(call, "permute_dims") and list(call.attrs.axes) == [1, 0]:
            return Linear(linear.weights, linear.bias, not linear.is_transposed)
        if is_call(call, "reshape"):
            is_matrix = call.args[0].ty.ndim == call.ty.ndim == 2
            return linear if is_matrix and keeps_features(call) else None
        if is_call(call, "strided_slice"):
            return _slice(call, linear)
        return None

    def _concatenation(self, call: Any) -> "Linear | np.ndarray | None":
        parts, axis = [self.of(part) for part in call.args[0].fields], int(call.attrs.axis)
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.concatenate(parts, axis)  # type: ignore[arg-type]
        linear = [part for part in parts if isinstance(part, Linear)]
        is_transposed = linear[0].is_transposed if linear else False
        if len(linear) < len(parts) or axis % 2 != int(not is_transposed):
            return None
        if any(
            part.is_transposed != is_transposed or part.weights.keys() != linear[0].weights.keys() for part in linear
        ):
            return None
        weights = {source: np.concatenate([part.part(source) for part in linear], 1) for source in linear[0].weights}
        return Linear(weights, np.concatenate([part.bias for part in linear]), is_transposed)

    def _sum(self, call: Any, operands: list[Any]) -> Linear | None:
        sign = -1 if is_call(call, "subtract") else 1
        first, second = operands
        if isinstance(first, Linear) and isinstance(second, Linear):
            return first.add(second, sign)
        linear, constant = (first, second) if isinstance(first, Linear) else (second, first)
        if linear is second and sign < 0:
            linear = linear.apply(np.negative)
        axis = 0 if linear.is_transposed else 1
        shape = (1,) * (2 - constant.ndim) + constant.shape
        if shape[1 - axis] != 1 or len(shape) != 2:
            return None
        added = constant.reshape(-1) * (sign if constant is second else 1)
        return Linear(linear.weights, linear.bias + added, linear.is_transposed)


def keeps_features(reshape: Any) -> bool:
    """Whether a reshape only adds or removes axes of size 1."""
    before, after = (
        [str(size) for size in map(plain, kind.shape.values) if size != 1 or not isinstance(size, int)]
        for kind in (reshape.args[0].ty, reshape.ty)
    )
    return before == after


def _identity(value: Any, source: Any) -> Linear | None:
    count = plain(value.ty.shape.values[-1])
    if not isinstance(count, int):
        return None
    return Linear({source: np.eye(count, dtype="float32")}, np.zeros(count, "float32"))


def _matmul(first: Any, second: Any) -> Linear | None:
    if isinstance(first, Linear) and isinstance(second, np.ndarray) and not first.is_transposed and second.ndim == 2:
        return first.apply(lambda weight: weight @ second)
    if isinstance(second, Linear) and isinstance(first, np.ndarray) and second.is_transposed and first.ndim == 2:
        return second.apply(lambda weight: weight @ first.T)
    return None


def _slice(call: Any, linear: Linear) -> Linear | None:
    axes, begins, ends, *strides = (
        [plain(item) for item in argument.fields] for argument in call.args[1:] if hasattr(argument, "fields")
    )
    feature_axis = 0 if linear.is_transposed else 1
    if axes != [feature_axis] or any(stride != 1 for stride in (strides[0] if strides else [])):
        return None
    if not all(isinstance(bound, int) for bound in (*begins, *ends)):
        return None
    return linear.apply(lambda weight: weight[:, begins[0] : ends[0]])


def _compute(call: Any, operands: list[Any]) -> np.ndarray | None:
    """A function of known arrays."""
    [array] = operands[:1]
    if is_call(call, "reshape"):
        shape = [plain(extent) for extent in call.ty.shape.values]
        return array.reshape(shape) if all(isinstance(extent, int) for extent in shape) else None
    if is_call(call, "permute_dims"):
        return np.transpose(array, [int(axis) for axis in call.attrs.axes] if call.attrs.axes is not None else None)
    if is_call(call, "add") and len(operands) == 2:
        return operands[0] + operands[1]
    return None
