"""Find the matmuls and convolutions of a float network that can use integers, and the tensors to quantise for them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import bindings, constant, fixed_shape, is_call, operator_name
from tvmake.ir.rewriting import with_functions
from tvmake.quantize.integers.conversion import MOVES
from tvmake.quantize.integers.products import LARGEST_SUM, OTHER_PRODUCTS, PRODUCTS
from tvmake.quantize.weights.channels import LARGEST_WEIGHT, weight_integers
from tvmake.quantize.weights.tables import LOOKUP, is_table

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


@dataclass
class Sites:
    """The quantised parts of a network."""

    products: list[Any] = field(default_factory=list)
    """Calls of matmuls and convolutions."""
    results: list[Any] = field(default_factory=list)
    """The variable of each product."""
    origins: list[Any] = field(default_factory=list)
    """For each product, the element of ``tensors`` that its input is or is moved from."""
    tensors: list[Any] = field(default_factory=list)
    """Variables in the order of computation; each is quantised once for all users."""
    tables: list[Any] = field(default_factory=list)
    """Calls that look up rows of a table that is stored in integers."""
    kept: list[tuple[str, str, str]] = field(default_factory=list)
    """Operator, name and reason of each product that stays in float32."""


def find_sites(module: Any, never: Collection[str]) -> Sites:
    """Find the products in ``main`` with constant weights, and their inputs.

    The module must be canonical, with its weights as constants. Operators that only move values are skipped, so that a
    max pooling, for example, also moves integers.
    """
    excluded = {name.removeprefix("relax.") for name in never}
    bindings: dict[Any, Any] = {}
    order: dict[Any, int] = {}
    for parameter in module["main"].params:
        order[parameter] = len(order)
    sites = Sites()
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                continue
            bindings[binding.var] = binding.value
            order[binding.var] = len(order)
            call = binding.value
            if LOOKUP not in excluded and is_table(call):
                sites.tables.append(call)
            if is_call(call, *OTHER_PRODUCTS):
                sites.kept.append((operator_name(call), str(binding.var.name), "it has no integer form"))
            if not is_call(call, *PRODUCTS) or str(call.ty.dtype) == "int32":
                continue
            if (reason := _obstacle(call, excluded)) is not None:
                sites.kept.append((operator_name(call), str(binding.var.name), reason))
                continue
            tensor = _origin(call.args[0], bindings)
            sites.products.append(call)
            sites.results.append(binding.var)
            sites.origins.append(tensor)
    sites.tensors = sorted(set(sites.origins), key=lambda tensor: order[tensor])
    return sites


def _obstacle(call: Any, excluded: Collection[str]) -> str | None:
    weight = constant(call.args[1])
    if operator_name(call) in excluded:
        return "it is named under never"
    if not isinstance(call.args[0], relax.Var):
        return "its input is a constant"
    if weight is None:
        return "its second operand is computed, not a weight"
    if str(call.args[0].ty.dtype) != "float32" or str(weight.dtype) != "float32":
        return f"it is of type {call.ty.dtype}"
    if weight.ndim < 2 or call.args[0].ty.ndim < 2 or fixed_shape(call.args[1]) is None:
        return "an operand is a vector"
    if not np.isfinite(weight).all():
        return "its weights are not finite"
    if _largest_sum(call) > LARGEST_SUM:
        return "its sums may exceed 32 bits"
    return None


def _largest_sum(call: Any) -> int:
    """Return a bound on an integer result for inputs at the limit of 8 bits."""
    integers, _, axis = weight_integers(call)
    if is_call(call, "matmul"):
        return int(integers.shape[-2]) * 255 * LARGEST_WEIGHT
    axes = tuple(index for index in range(integers.ndim) if index != axis)
    return int(np.abs(integers.astype(np.int64)).sum(axis=axes).max(initial=0)) * 255


def _origin(value: Any, bindings: dict[Any, Any]) -> Any:
    while is_call(bindings.get(value), *MOVES) and isinstance(bindings[value].args[0], relax.Var):
        source = bindings[value].args[0]
        if str(source.ty.dtype) != "float32":
            break
        value = source
    return value


def return_tensors(module: Any, tensors: list[Any]) -> Any:
    """Return the module whose ``main`` returns these tensors."""
    variables = [relax.Var(f"observed_{number}", tensor.ty) for number, tensor in enumerate(tensors)]
    bindings = [relax.VarBinding(variable, tensor) for variable, tensor in zip(variables, tensors, strict=True)]
    return with_outputs(module, bindings, variables)


def with_outputs(module: Any, bindings: Sequence[Any], variables: Sequence[Any]) -> Any:
    """Append bindings to ``main`` and return their ``variables``."""
    main = module["main"]
    blocks = [relax.BindingBlock(list(block.bindings)) for block in main.body.blocks]
    body = relax.SeqExpr([*blocks, relax.BindingBlock(list(bindings))], relax.Tuple(list(variables)))
    # Variables of a dataflow block are not visible outside it.
    result = relax.TupleType([variable.ty for variable in variables])
    function = relax.Function(list(main.params), body, result, is_pure=main.is_pure, attrs=main.attrs)
    changed = with_functions(module, {"main": _plain_variables(function)})
    passes = relax.transform
    return tvm.transform.Sequential([passes.Normalize(), passes.ConvertToDataflow(), passes.DeadCodeElimination()])(
        changed
    )


def _plain_variables(function: Any) -> Any:
    variables = {
        binding.var: relax.Var(str(binding.var.name), binding.var.ty)
        for binding in bindings(function)
        if isinstance(binding.var, relax.DataflowVar)
    }
    return _DataflowVarReplacer(variables).visit_expr(function)


@mutator
class _DataflowVarReplacer(PyExprMutator):
    def __init__(self, variables: dict[Any, Any]):
        super().__init__()
        self._variables = variables

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._variables.get(op, op)

    def visit_dataflow_var_def_(self, var: Any) -> Any:
        return self._variables.get(var, var)
