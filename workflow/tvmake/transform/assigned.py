"""A precision for each layer: some in 8-bit integers, some in float16, the others as they are.

Layers in ``int8`` get quantised as in a network that is quantised as a whole, and tables whose rows are looked up are held in 8 bits
beside them. A layer in ``float16`` reads and gives float16; what
follows it element by element stays so as long as all that it reads is float16, by TVM's own categories of operators. Where layers of
different precisions meet, there is a cast, which the kernel of one of them does.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import tvm

from tvmake.artifact.calibration import Calibration
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
"""TVM's category of an operator, and that of those that compute in what they read."""

FLOAT32_ONLY = ("astype", "quantize", "dequantize")
"""Followers of TVM's that say themselves which type they give."""

FLOATS = ("float16", "float32")


def assign(
    module: "tvm.IRModule",
    precisions: Sequence[LayerPrecision],
    calibration: Calibration | None,
    never: Collection[str] = (),
) -> "tvm.IRModule":
    """The network with each of its layers (:func:`tvmake.transform.network_layers.network_layers`) in its precision.

    Args:
        module: the float network.
        precisions: one for each layer, in order.
        calibration: ranges of all that can be held in 8 bits; None where no layer is ``int8``.
        never: what calibration left out.

    Raises:
        InputError: there are more or fewer layers than precisions, or an ``int8`` layer has no ranges.
    """
    layers = [
        (binding.var, binding.value)
        for binding in bindings(module["main"])
        if isinstance(binding, relax.VarBinding) and is_layer(binding.value)
    ]
    if len(layers) != len(precisions):
        raise InputError(
            "precision.json",
            f"names the precisions of {len(precisions)} layers, the network has {len(layers)}",
            "delete it and run again",
        )
    wanted = [variable for (variable, _), one in zip(layers, precisions, strict=True) if one == "int8"]
    if wanted:
        if calibration is None:
            raise InputError("int8", "needs the ranges of activations", "give --calibration")
        module = insert(module, *_part(find_sites(module, never), calibration, wanted))
    if any(one.startswith("float16") for one in precisions):
        module = split_clips(module)
        module = join_clips(rewritten(module, _HalfPrecisionMutator(module, precisions)))
    return evaluate_constants(to_integers(module))


def _part(sites: Sites, calibration: Calibration, wanted: Sequence[Any]) -> tuple[Sites, list[Any], list[Any]]:
    """Of sites, ranges and shifts, those of some layers."""
    kept = [any(result.same_as(one) for one in wanted) for result in sites.results]
    if sum(kept) < len(wanted):
        raise InputError("precision.json", "names int8 for a layer that has no integer form", "delete it and run again")
    if len(calibration.ranges) != len(sites.tensors):
        raise InputError("calibration.json", "has ranges of another network", "delete it and run again")
    origins = [origin for origin, is_kept in zip(sites.origins, kept, strict=True) if is_kept]
    tensors = [any(tensor.same_as(origin) for origin in origins) for tensor in sites.tensors]

    def of(values: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
        return [value for value, is_chosen in zip(values, chosen, strict=True) if is_chosen]

    part = replace(
        sites,
        products=of(sites.products, kept),
        results=of(sites.results, kept),
        origins=origins,
        tensors=of(sites.tensors, tensors),
    )
    return part, of(calibration.ranges, tensors), of(calibration.shifts, kept) if calibration.shifts else []


@mutator
class _HalfPrecisionMutator(PyExprMutator):
    """Computes some layers, and what follows them, in float16."""

    def __init__(self, module: "tvm.IRModule", precisions: Sequence[LayerPrecision]):
        super().__init__(module)
        self._precisions = iter(precisions)
        self._cast: dict[tuple[Any, str], Any] = {}
        self._results = _results(module["main"])
        self._is_result = False

    def visit_var_binding_(self, binding: Any) -> Any:
        self._is_result = any(binding.var.same_as(one) for one in self._results)
        return super().visit_var_binding_(binding)

    def visit_call_(self, op: Any) -> Any:
        arguments = [self.visit_expr(argument) for argument in op.args]
        if is_layer(op):
            precision = next(self._precisions)
            if precision.startswith("float16"):
                return self._half_layer(op, arguments, precision)
        follows = not self._is_result and _follows(op) and self._are_half(arguments)
        arguments = [self._as(argument, "float16" if follows else "float32") for argument in arguments]
        return relax.Call(op.op, arguments, op.attrs, op.ty_args)

    def _half_layer(self, op: Any, arguments: Sequence[Any], precision: str) -> Any:
        halves = [self._as(argument, "float16") for argument in arguments]
        accumulated = "float16" if precision == "float16" else "float32"
        call = op.op.get_attr(INFER)(relax.Call(op.op, halves, op.attrs, op.ty_args), accumulated)
        wanted = "float32" if self._is_result else "float16"
        return call if accumulated == wanted else relax.op.astype(self.builder_.emit(call), wanted)

    def _are_half(self, arguments: Sequence[Any]) -> bool:
        """Whether float16 is all that is read, constants aside."""
        read = [dtype for argument in arguments for dtype in _computed(argument)]
        return bool(read) and all(dtype == "float16" for dtype in read)

    def _as(self, value: Any, dtype: str) -> Any:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._as(field, dtype) for field in value.fields])
        if not isinstance(value.ty, relax.TensorType) or str(value.ty.dtype) not in FLOATS:
            return value
        if str(value.ty.dtype) == dtype:
            return value
        if (known := constant(value)) is not None:
            return relax.const(known.astype(dtype), dtype)
        if (value, dtype) not in self._cast:
            self._cast[value, dtype] = self.builder_.emit(relax.op.astype(value, dtype))
        return self._cast[value, dtype]


def _follows(call: Any) -> bool:
    if not isinstance(call.op, tvm.ir.Op) or is_call(call, *FLOAT32_ONLY):
        return False
    is_follower = call.op.get_attr(POLICY) == FOLLOW or is_call(call, *MOVES)
    return is_follower and isinstance(call.ty, relax.TensorType)


def _computed(value: Any) -> list[str]:
    """The floating-point types of the variables in an argument."""
    if isinstance(value, relax.Tuple):
        return [dtype for field in value.fields for dtype in _computed(field)]
    is_tensor = isinstance(value.ty, relax.TensorType) and constant(value) is None
    return [str(value.ty.dtype)] if is_tensor and str(value.ty.dtype) in FLOATS else []


def _results(function: Any) -> list[Any]:
    """The variables that a function returns, under every name that they have."""
    values = {binding.var: binding.value for binding in bindings(function) if isinstance(binding, relax.VarBinding)}
    found: list[Any] = []
    pending = [function.body.body]
    while pending:
        value = pending.pop()
        if isinstance(value, relax.Tuple):
            pending += list(value.fields)
        elif isinstance(value, relax.TupleGetItem):
            pending.append(value.tuple_value)
        elif isinstance(value, relax.Var):
            found.append(value)
            if value in values and not isinstance(values[value], relax.Call):
                pending.append(values[value])
    return found
