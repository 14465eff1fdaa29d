"""Compute every value of a Relax graph on this machine's CPU, kernel by kernel and without schedules.

Rules, records, passes over kernels and memory planning are not involved: these values are the reference for the
package's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.debug.departure import Value
from tvmake.errors import InputError
from tvmake.ir.expressions import bindings, is_call, operator_name, variables
from tvmake.targets.kernels.memory import in_buffers
from tvmake.targets.numbers.norms import NORMS

COPIES = frozenset({"to_vdevice", "hint_on_device"})
"""Calls that return their first argument in another memory."""


@dataclass(frozen=True)
class Step:
    """One executed binding of a graph."""

    name: str
    operator: str
    """In the graph before its operators became kernels."""
    kernel: str | None
    """The callee; None if it is not a kernel call."""
    inputs: tuple[str, ...]
    arguments: tuple[np.ndarray, ...]
    """Of the kernel."""
    result: Any
    """An array, a list of arrays, or a tuple of sizes."""

    def values(self) -> Iterator[Value]:
        """Its arrays; an element of a tuple names the tuple."""
        parts = self.result if isinstance(self.result, list) else [self.result]
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        if len(arrays) == 1:
            yield Value(self.name, self.operator, self.inputs, arrays[0])
        elif arrays:
            names = tuple(f"{self.name}.{number}" for number in range(len(arrays)))
            for name, array in zip(names, arrays, strict=True):
                yield Value(name, self.operator, self.inputs, array)
            yield Value(self.name, self.operator, names, arrays[0])


@dataclass(frozen=True)
class Trace:
    """The values of one run of a graph."""

    steps: tuple[Step, ...]
    outputs: tuple[np.ndarray, ...]

    @property
    def values(self) -> list[Value]:
        """All arrays, in order of computation."""
        return [value for step in self.steps for value in step.values()]


def main_arguments(module: "tvm.IRModule", inputs: Sequence[np.ndarray], params: Mapping[str, Any]) -> list[np.ndarray]:
    """What ``main`` takes: the inputs, then parameters by their names."""
    return [*inputs, *(params[str(parameter.name)].numpy() for parameter in module["main"].params[len(inputs) :])]


def trace_operators(module: "tvm.IRModule", tensors: Sequence[np.ndarray]) -> Trace:
    """Run a graph of Relax operators, one by one.

    Raises:
        InputError: the graph has dimensions without a value, or an operator without a kernel.
    """
    operators = {binding.var: _operator(binding.value) for binding in bindings(module["main"])}
    backend = relax.backend
    passes = [backend.DispatchSampling(), backend.DispatchSortScan(), relax.transform.LegalizeOps(NORMS)]
    with tvm.target.Target({"kind": "llvm"}):
        legal = tvm.transform.Sequential(passes)(module)
    return _trace(legal, tensors, operators)


def trace_kernels(module: "tvm.IRModule", tensors: Sequence[np.ndarray]) -> Trace:
    """Run a graph of calls of unscheduled kernels, one by one.

    Raises:
        InputError: the graph has dimensions without a value, or calls something other than kernels.
    """
    return _trace(module, tensors, {})


def _trace(module: "tvm.IRModule", tensors: Sequence[np.ndarray], operators: Mapping[Any, str]) -> Trace:
    main = module["main"]
    values: dict[Any, Any] = {}
    names: dict[Any, str] = {}
    for parameter, tensor in zip(main.params, tensors, strict=True):
        values[parameter] = np.asarray(tensor).astype(numpy_dtype(str(parameter.ty.dtype)), copy=False)
        names[parameter] = str(parameter.name)
    kernels = _compile(module)
    steps: list[Step] = []
    for number, binding in enumerate(bindings(main)):
        variable, call = binding.var, binding.value
        kernel, arguments = None, ()
        if is_call(call, "call_tir"):
            kernel = str(call.args[0].name_hint)
            arguments = tuple(_evaluate(field, values) for field in call.args[1].fields)
            results = _run(kernels[kernel], arguments, call)
            values[variable] = results if isinstance(call.ty_args[0], relax.TupleType) else results[0]
        else:
            values[variable] = _evaluate(call, values)
        names[variable] = f"{variable.name}#{number}"  # the variables' own names are not unique
        inputs = tuple(names[variable] for variable in variables(call) if variable in names)
        operator = operators.get(variable) or _operator(call)
        steps.append(Step(names[variable], operator, kernel, inputs, arguments, values[variable]))
    result = _evaluate(main.body.body, values)
    return Trace(tuple(steps), tuple(result) if isinstance(result, list) else (result,))


def _operator(expression: Any) -> str:
    if is_call(expression, "call_tir"):
        return str(expression.args[0].name_hint)
    return str(expression.op.name) if operator_name(expression) else type(expression).__name__  # as TVM spells it


def _evaluate(expression: Any, known: Mapping[Any, Any]) -> Any:
    match expression:
        case relax.Var():
            return known[expression]
        case tvm.ir.GenericConst():
            return np.asarray(expression.value.numpy())
        case relax.Tuple():
            return [_evaluate(field, known) for field in expression.fields]
        case relax.TupleGetItem():
            return _evaluate(expression.tuple_value, known)[int(expression.index)]
        case relax.Call() if is_call(expression, *COPIES):
            return _evaluate(expression.args[0], known)
        case relax.ShapeExpr():
            return tuple(_extents(expression.values))
        case relax.Call() if is_call(expression, "shape_of"):
            return tuple(_evaluate(expression.args[0], known).shape)
        case relax.Call() if is_call(expression, "shape_to_tensor"):
            return np.asarray(_evaluate(expression.args[0], known), np.int64)
        case relax.Call() if is_call(expression, "tensor_to_shape"):
            return tuple(map(int, _evaluate(expression.args[0], known)))
        case relax.Call() if is_call(expression, "reshape"):
            return _evaluate(expression.args[0], known).reshape(_evaluate(expression.args[1], known))
        case _:
            raise InputError("debug", f"cannot follow {_operator(expression)} outside of kernels")


def _compile(module: "tvm.IRModule") -> Any:
    """The kernels of a module, as plain loops."""
    kernels = {
        str(variable.name_hint): in_buffers(function).with_attr("global_symbol", str(variable.name_hint))
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    return tvm.compile(tvm.IRModule(kernels), target=tvm.target.Target({"kind": "llvm"}))


def _run(kernel: Any, arguments: Sequence[np.ndarray], call: Any) -> list[np.ndarray]:
    (result,) = call.ty_args
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    results = [tvm.runtime.tensor(np.zeros(_shape(ty), numpy_dtype(str(ty.dtype)))) for ty in types]
    kernel(*(tvm.runtime.tensor(np.asarray(argument, order="C")) for argument in arguments), *results)
    return [result.numpy() for result in results]


def _shape(ty: Any) -> list[int]:
    return _extents(ty.shape)


def _extents(shape: Any) -> list[int]:
    try:
        return [int(extent) for extent in shape]
    except (TypeError, ValueError):
        raise InputError(
            "debug", "the network has dimensions without a value", "set them: `dims: {NAME: SIZE}`"
        ) from None
