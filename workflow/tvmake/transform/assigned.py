"""Assign a precision to each layer: 8-bit integers, float16, or float32.

Layers in ``int8`` are quantised as in a fully quantised network, and lookup tables are then stored in 8 bits as well. A
layer in ``float16`` reads and writes float16. Element-wise operators after it stay in float16 while all their inputs are
float16, according to TVM's categories of operators. A cast between layers of different precisions is fused into a kernel.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import tvm

from tvmake.artifact.calibration import Calibration
from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.errors import InputError
from tvmake.ir.expressions import bindings, constant, is_call
from tvmake.ir.rewriting import rewritten
from tvmake.quantize.calibrated.insertion import insert
from tvmake.quantize.calibrated.sites import Sites, find_sites
from tvmake.quantize.integers.conversion import MOVES, to_integers
from tvmake.quantize.precision import LayerPrecision
from tvmake.transform.fold_constants import evaluate_constants
from tvmake.transform.layouts.clips import join_clips, split_clips
from tvmake.transform.network_layers import INFER, is_layer

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

POLICY, FOLLOW = "TMixedPrecisionPolicy", 1
"""Attribute of an operator's category, and the category of operators that compute in the dtype of their inputs."""

FLOAT32_ONLY = ("astype", "quantize", "dequantize")
"""Operators of the category ``FOLLOW`` that set their result's dtype."""

FLOATS = ("float16", "float32")


def assign(
    module: "tvm.IRModule",
    precisions: Sequence[LayerPrecision],
    calibration: Calibration | None,
    never: Collection[str] = (),
) -> "tvm.IRModule":
    """Convert each layer (:func:`tvmake.transform.network_layers.network_layers`) to its precision.

    Args:
        module: the float network.
        precisions: one for each layer, in order.
        calibration: ranges of all quantisable tensors; None if no layer is ``int8``.
        never: operators that calibration left out.

    Raises:
        InputError: the numbers of layers and precisions differ, or an ``int8`` layer has no ranges.
    """
    layers = [
        (binding.var, binding.value)
        for binding in bindings(module["main"])
        if isinstance(binding, relax.VarBinding) and is_layer(binding.value)
    ]
    if len(layers) != len(precisions):
        problem = f"names the precisions of {len(precisions)} layers, the network has {len(layers)}"
        raise InputError("precision.json", problem, "delete it and run again")
    integer_layers = [
        variable for (variable, _), precision in zip(layers, precisions, strict=True) if precision == "int8"
    ]
    if integer_layers:
        if calibration is None:
            raise InputError("int8", "needs the ranges of activations", "give --calibration")
        module = insert(module, *_select(find_sites(module, never), calibration, integer_layers))
    if any(precision.startswith("float16") for precision in precisions):
        module = split_clips(module)
        module = join_clips(rewritten(module, _HalfPrecisionMutator(module, precisions)))
    return evaluate_constants(to_integers(module))


def _select(sites: Sites, calibration: Calibration, layers: Sequence[Any]) -> tuple[Sites, list[Any], list[Any]]:
    """Select the sites, ranges and shifts of some layers."""
    is_selected = [any(result.same_as(layer) for layer in layers) for result in sites.results]
    if sum(is_selected) < len(layers):
        raise InputError("precision.json", "names int8 for a layer without an integer form", "delete it and run again")
    if len(calibration.ranges) != len(sites.tensors):
        raise InputError("calibration.json", "has ranges of another network", "delete it and run again")

    def select(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
        return [value for value, is_set in zip(values, mask, strict=True) if is_set]

    origins = select(sites.origins, is_selected)
    has_origin = [any(tensor.same_as(origin) for origin in origins) for tensor in sites.tensors]
    part = replace(
        sites,
        products=select(sites.products, is_selected),
        results=select(sites.results, is_selected),
        origins=origins,
        tensors=select(sites.tensors, has_origin),
    )
    shifts = select(calibration.shifts, is_selected) if calibration.shifts else []
    return part, select(calibration.ranges, has_origin), shifts


@mutator
class _HalfPrecisionMutator(PyExprMutator):
    """Compute layers and the element-wise operators after them in float16."""

    def __init__(self, module: "tvm.IRModule", precisions: Sequence[LayerPrecision]):
        super().__init__(module)
        self._precisions = iter(precisions)
        self._cast: dict[tuple[Any, str], Any] = {}
        self._results = _results(module["main"])
        self._is_result = False

    def visit_var_binding_(self, binding: Any) -> Any:
        self._is_result = any(binding.var.same_as(result) for result in self._results)
        return super().visit_var_binding_(binding)

    def visit_call_(self, op: Any) -> Any:
        arguments = [self.visit_expr(argument) for argument in op.args]
        if is_layer(op):
            precision = next(self._precisions)
            if precision.startswith("float16"):
                return self._half_layer(op, arguments, precision)
        follows = not self._is_result and _follows(op) and self._are_half(arguments)
        arguments = [self._cast_to(argument, "float16" if follows else "float32") for argument in arguments]
        return relax.Call(op.op, arguments, op.attrs, op.ty_args)

    def _half_layer(self, op: Any, arguments: Sequence[Any], precision: str) -> Any:
        halves = [self._cast_to(argument, "float16") for argument in arguments]
        accumulator = "float16" if precision == "float16" else "float32"
        call = op.op.get_attr(INFER)(relax.Call(op.op, halves, op.attrs, op.ty_args), accumulator)
        dtype = "float32" if self._is_result else "float16"
        return call if accumulator == dtype else relax.op.astype(self.builder_.emit(call), dtype)

    def _are_half(self, arguments: Sequence[Any]) -> bool:
        """Whether all arguments except constants are float16."""
        dtypes = [dtype for argument in arguments for dtype in _variable_dtypes(argument)]
        return bool(dtypes) and all(dtype == "float16" for dtype in dtypes)

    def _cast_to(self, value: Any, dtype: str) -> Any:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._cast_to(field, dtype) for field in value.fields])
        if not isinstance(value.ty, relax.TensorType) or str(value.ty.dtype) not in FLOATS:
            return value
        if str(value.ty.dtype) == dtype:
            return value
        if (known := constant(value)) is not None:
            return relax.const(spill_tensor(known.astype(dtype)), dtype)
        if (value, dtype) not in self._cast:
            self._cast[value, dtype] = self.builder_.emit(relax.op.astype(value, dtype))
        return self._cast[value, dtype]


def _follows(call: Any) -> bool:
    if not isinstance(call.op, tvm.ir.Op) or is_call(call, *FLOAT32_ONLY):
        return False
    is_follower = call.op.get_attr(POLICY) == FOLLOW or is_call(call, *MOVES)
    return is_follower and isinstance(call.ty, relax.TensorType)


def _variable_dtypes(value: Any) -> list[str]:
    """Return the floating-point dtypes of the variables in an argument."""
    if isinstance(value, relax.Tuple):
        return [dtype for field in value.fields for dtype in _variable_dtypes(field)]
    is_tensor = isinstance(value.ty, relax.TensorType) and constant(value) is None
    return [str(value.ty.dtype)] if is_tensor and str(value.ty.dtype) in FLOATS else []


def _results(function: Any) -> list[Any]:
    """Return the variables that a function returns, with all their aliases."""
    values = {binding.var: binding.value for binding in bindings(function) if isinstance(binding, relax.VarBinding)}
    results: list[Any] = []
    pending = [function.body.body]
    while pending:
        value = pending.pop()
        if isinstance(value, relax.Tuple):
            pending += list(value.fields)
        elif isinstance(value, relax.TupleGetItem):
            pending.append(value.tuple_value)
        elif isinstance(value, relax.Var):
            results.append(value)
            if value in values and not isinstance(values[value], relax.Call):
                pending.append(values[value])
    return results
