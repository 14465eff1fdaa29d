"""Evaluate operators on constants with numpy.

TVM's FoldConstant compiles a kernel for every operator it folds, 0.1 s each: 23 s for the batch norms of a
MobileNetV2. The operators that folding batch norms, changing layouts and casting weights leave behind are few and
exact in numpy; the rest is left to FoldConstant, which runs afterwards.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.ir.expressions import is_call, operator_name
from tvmake.ir.rewriting import definition, with_functions
from tvmake.storage.mapped.mapping import release

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

Evaluate = Callable[[list[np.ndarray], Any], np.ndarray]


def _unit_axes(shape: tuple[int, ...], axes: Any) -> tuple[int, ...]:
    """Return the axes that a squeeze removes; TVM ignores named axes of other extents."""
    named = range(len(shape)) if axes is None else [int(axis) for axis in axes]
    return tuple(axis for axis in named if shape[axis] == 1)


OPERATORS: dict[str, Evaluate] = {
    "add": lambda x, _: x[0] + x[1],
    "subtract": lambda x, _: x[0] - x[1],
    "multiply": lambda x, _: x[0] * x[1],
    "divide": lambda x, _: x[0] / x[1],
    "sqrt": lambda x, _: np.sqrt(x[0]),
    "rsqrt": lambda x, _: np.asarray(1, x[0].dtype) / np.sqrt(x[0]),
    "negative": lambda x, _: -x[0],
    "astype": lambda x, attrs: x[0].astype(str(attrs.dtype)),
    "reshape": lambda x, _: x[0].reshape(x[1]),
    "expand_dims": lambda x, attrs: np.expand_dims(x[0], tuple(int(axis) for axis in attrs.axis)),
    "squeeze": lambda x, attrs: np.squeeze(x[0], _unit_axes(x[0].shape, attrs.axis)),
    "permute_dims": lambda x, attrs: np.transpose(x[0], None if attrs.axes is None else tuple(map(int, attrs.axes))),
}
"""NumPy functions of Relax operators (a shape argument is a list of ints)."""

FLOATING_ONLY = frozenset({"divide", "sqrt", "rsqrt"})
"""Operators whose results for integers differ between TVM and NumPy."""

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64")
"""Dtypes of both NumPy and TVM; others are left to FoldConstant."""


def evaluate_constants(module: "tvm.IRModule") -> "tvm.IRModule":
    """Evaluate constant expressions, and drop unused bindings."""
    passes = relax.transform
    clean = [passes.CanonicalizeBindings(), passes.FoldConstant(), passes.DeadCodeElimination()]
    return tvm.transform.Sequential(clean)(fold_constants(passes.CanonicalizeBindings()(module)))


def fold_constants(module: "tvm.IRModule") -> "tvm.IRModule":
    """Evaluate all calls of ``OPERATORS`` on constants in ``main``."""
    with np.errstate(all="ignore"):  # infinities and NaN come from the model
        return with_functions(module, {"main": _ConstantFolder(module).visit_expr(module["main"])})


@mutator
class _ConstantFolder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        """Constants by content: equal results are one constant, so that shared weights stay recognisable."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        evaluate = OPERATORS.get(name)
        if evaluate is None:
            return call
        arguments = [self._value(argument) for argument in call.args]
        if any(argument is None for argument in arguments):
            return call
        if name in FLOATING_ONLY and arguments[0].dtype.kind != "f":
            return call
        result = np.asarray(evaluate(arguments, call.attrs), order="C")  # ascontiguousarray gives scalars a dimension
        for array in arguments:
            if isinstance(array, np.ndarray):
                release(array.ctypes.data, array.nbytes)
        dtype, shape = str(call.ty.dtype), [int(extent) for extent in call.ty.shape]
        # NumPy's promotion differs from TVM's; a result of another type is left to FoldConstant.
        if str(result.dtype) != dtype or list(result.shape) != shape:
            return call
        return self._constant(result)

    def visit_tuple_getitem_(self, op: Any) -> Any:
        """Fold a part of a split constant, such as attention's weights; FoldConstant leaves parts of tuples."""
        part = self.visit_expr_post_order(op)
        call = definition(self, part.tuple_value)
        value = self._value(call.args[0]) if is_call(call, "split") else None
        if value is None:
            return part
        axis = int(call.attrs.axis)
        start = sum(int(field.shape[axis]) for field in list(call.ty.fields)[: part.index])
        return self._constant(np.take(value, range(start, start + int(part.ty.shape[axis])), axis))

    def _constant(self, result: np.ndarray) -> Any:
        dtype = str(result.dtype)
        key = (dtype, result.shape, hashlib.sha256(result.reshape(-1).view(np.uint8).data).digest())
        if key not in self._constants:
            self._constants[key] = relax.const(spill_tensor(result), dtype)
        return self._constants[key]

    def _value(self, argument: Any) -> Any:
        """Return a NumPy array, a list of ints for a fixed shape, or None for other expressions."""
        argument = definition(self, argument)
        if isinstance(argument, tvm.ir.GenericConst) and isinstance(argument.ty, relax.TensorType):
            return np.from_dlpack(argument.value) if str(argument.ty.dtype) in DTYPES else None
        if isinstance(argument, tvm.tirx.FloatImm | tvm.tirx.IntImm):
            dtype = str(argument.dtype) if hasattr(argument, "dtype") else str(argument.ty.dtype)
            return np.asarray(argument.value, dtype) if dtype in DTYPES else None
        if isinstance(argument, relax.ShapeExpr):
            extents = list(argument.values)
            return [int(extent) for extent in extents] if all(isinstance(e, tvm.tirx.IntImm) for e in extents) else None
        return None
