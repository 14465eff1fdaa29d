"""Corrections of every importer's Relax: safe indices, precise functions, parameters as arguments."""

import hashlib
from collections.abc import Mapping
from typing import Any

import tvm

from tvmake.artifact.weights.tensors import data_of, release_tensor, size_of, tensor_key
from tvmake.frontend.lowering.stable_math import atanh
from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten, with_functions

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

LIFT_FROM_BYTES = 256
"""Smaller constants stay in the module: scalars and shapes, which lowering may read."""


@mutator
class _OperatorCorrector(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if is_call(call, "take") and call.attrs.mode == "fast":
            return relax.op.take(*call.args, axis=call.attrs.axis, mode="wrap")
        if is_call(call, "scatter_elements"):
            return self._correct_scatter(call)
        if is_call(call, "argmax", "argmin"):
            return relax.op.maximum(self.builder_.emit(call), relax.const(0, str(call.ty.dtype)))
        return atanh(call.args[0]) if is_call(call, "atanh") else call

    def _correct_scatter(self, call: relax.Call) -> relax.Expr:
        """Scatter into the part of the data that the indices cover, and append the rest."""
        data, indices, updates = call.args
        shapes = (data.ty.shape, indices.ty.shape)
        if not all(isinstance(shape, relax.ShapeExpr) for shape in shapes):
            return call
        extents, covered = (shape.values for shape in shapes)
        axis = call.attrs.axis % len(extents)
        is_equal = tvm.sym.Analyzer().can_prove_equal
        emit, rests = self.builder_.emit, []
        for number in range(len(extents)):
            if number != axis and not is_equal(extents[number], covered[number]):
                bounds = ([covered[number]], [extents[number]])
                rests.append((number, emit(relax.op.strided_slice(data, [number], *bounds, assume_inbound=True))))
                data = emit(relax.op.strided_slice(data, [number], [0], [covered[number]], assume_inbound=True))
        if not rests:
            return call
        result = emit(relax.op.scatter_elements(data, indices, updates, axis, call.attrs.reduction))
        for number, rest in reversed(rests):
            result = emit(relax.op.concat([result, rest], number))
        return result


def correct_operators(module: "tvm.IRModule") -> "tvm.IRModule":
    """Correct ``take`` of negative indices, ``atanh`` near zero, ``argmax`` of infinities, and scatters of fewer indices than rows.

    Mode "wrap" takes the index modulo the dimension. Repairs: `take-of-negative-indices`, `digits-of-atanh`, `argmax-of-infinities`,
    `scattering-of-fewer-indices`.
    """
    return rewritten(module, _OperatorCorrector(module))


@mutator
class _ConstantLifter(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", min_bytes: int, names: set[str], known: Mapping[Any, str]):
        super().__init__(module)
        self.known = known
        self.min_bytes = min_bytes
        self.names = names
        self.lifted: dict[Any, tuple[relax.Var, Any]] = {}

    def visit_generic_const_(self, op: Any) -> relax.Expr:
        if not isinstance(op.ty, relax.TensorType):
            return op
        value = op.value
        if size_of(value) < self.min_bytes:
            return op
        key = (str(value.dtype), tuple(map(int, value.shape)), hashlib.sha256(data_of(value)).digest())
        release_tensor(value)
        if key not in self.lifted:
            name = self.known.get(tensor_key(value)) or self._new_name()
            self.names.add(name)
            self.lifted[key] = (relax.Var(name, op.ty), value)
        return self.lifted[key][0]

    def _new_name(self) -> str:
        index = len(self.lifted)
        while (name := f"param_{index}") in self.names:
            index += 1
        return name


def lift_constants(
    module: "tvm.IRModule", min_bytes: int = LIFT_FROM_BYTES, known: Mapping[str, Any] | None = None
) -> tuple["tvm.IRModule", dict[str, Any]]:
    """Turn constants of at least ``min_bytes`` bytes into trailing arguments of ``main``.

    A module without its weights is small and byte-stable. Arguments follow the module's own, in the constants' order of
    appearance, and are called ``param_0``, ``param_1`` …. Equal constants share one argument.

    Args:
        known: tensors by name; constants that are these tensors get their names.

    Returns:
        The module, and the lifted values (TVM tensors) by argument name in argument order.
    """
    main = module["main"]
    tensors = {name: value for name, value in (known or {}).items() if isinstance(value, tvm.runtime.Tensor)}
    names = {tensor_key(tensor): name for name, tensor in tensors.items() if size_of(tensor)}
    lifter = _ConstantLifter(module, min_bytes, {*(var.name for var in main.params), *names.values()}, names)
    body = lifter.visit_expr(main.body)
    if not lifter.lifted:
        return module, {}
    lifted = list(lifter.lifted.values())
    parameters = [*main.params, *(var for var, _ in lifted)]
    return with_main(module, parameters, body), {var.name: value for var, value in lifted}


def drop_unused_params(module: "tvm.IRModule", params: dict[str, Any]) -> tuple["tvm.IRModule", dict[str, Any]]:
    """Drop trailing parameters that nothing reads, such as those that an importer used as constants."""
    main = module["main"]
    first = len(main.params) - len(params)
    used = {var.name for var in relax.analysis.free_vars(main.body)}
    # An unused input stays part of the signature.
    kept = [var for index, var in enumerate(main.params) if index < first or var.name in used]
    if len(kept) == len(main.params):
        return module, params
    names = {var.name for var in kept[first:]}
    changed = with_main(module, kept, main.body)
    return changed, {name: value for name, value in params.items() if name in names}


def with_main(
    module: "tvm.IRModule", parameters: list[relax.Var], body: relax.Expr, result: Any = None
) -> "tvm.IRModule":
    """The module with another argument list and body of ``main``; a body that is not normalised needs ``result``, its type."""
    main = module["main"]
    function = relax.Function(parameters, body, result, is_pure=main.is_pure, attrs=main.attrs)
    return with_functions(module, {"main": function})
