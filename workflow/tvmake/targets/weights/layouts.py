"""Convert weights to the layout of a target's kernels once, when the package is built.

Parameters are arguments of ``main``, so TVM would convert the layout of every weight in every run. Some kernels depend
on weights only, and only move data, compute integers, or declare that they are exact (:data:`SAME_EVERYWHERE`). They
become packings (``targets.prepack``), and ``main`` takes their results, which are equal on all machines.
"""

import math
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.weights.names import unused_name
from tvmake.ir.expressions import bindings, dtype_name, operator_name
from tvmake.targets.weights.layout_free import is_tensor_call
from tvmake.targets.weights.prepack import Packing, Prepacked

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

MOVING = frozenset({"prim.if_then_else", "prim.likely", "tirx.if_then_else", "tirx.likely"})
"""Calls without computation."""

REDUCTION = 2
"""``IterVar`` type kCommReduce (include/tvm/tirx/var.h)."""

SAME_EVERYWHERE = "tvmake.same_everywhere"
"""Attribute of kernels that compute floats from weights with equal results on all machines."""

ATTRIBUTES = ("global_symbol", "target", "tirx.is_scheduled", "op_pattern", "scoped", SAME_EVERYWHERE)
"""Attributes that packing functions do not need."""


def extract_weight_layouts(module: "tvm.IRModule", inputs: int) -> Prepacked:
    """Pass weights to ``main`` in the layouts of its kernels.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
    """
    main = module["main"]
    finder = _WeightMoveFinder(module, main.params[inputs:])
    finder.visit(main)
    if not finder.packings:
        return Prepacked(module, ())
    body = _WeightReplacer(module, finder.replaced).visit_expr(main)
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    weights = [*main.params[inputs:], *dict.fromkeys(finder.replaced.values())]
    replaced = relax.Function(
        [*main.params[:inputs], *weights], body.body, body.ret_ty, body.is_pure, body.attrs, body.span
    )
    changed["main"] = replaced
    changed = relax.transform.DeadCodeElimination(["main"])(changed)
    return _without_unused(changed, inputs, finder.packings)


def _without_unused(module: "tvm.IRModule", inputs: int, packings: Sequence[Packing]) -> Prepacked:
    main = module["main"]
    used = set(relax.analysis.free_vars(main.body))
    packed = {source for packing in packings for source in packing.sources}
    results = {result for packing in packings for result in packing.results}
    weights = [
        weight
        for weight in main.params[inputs:]
        # A parameter that was never used stays an argument.
        if weight in used or str(weight.name) not in packed | results
    ]
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = relax.Function(
        [*main.params[:inputs], *weights], main.body, main.ret_ty, main.is_pure, main.attrs, main.span
    )
    return Prepacked(changed, tuple(packings))


class _WeightMoveFinder:
    """Finds calls of kernels that only move weights."""

    def __init__(self, module: "tvm.IRModule", weights: Sequence[Any]):
        self.module = module
        self.names: dict[Any, str] = {weight: str(weight.name) for weight in weights}
        """Names of weights, and of values computed from them, by variable."""
        self.names_in_use = {str(parameter.name) for parameter in module["main"].params}
        self.replaced: dict[Any, Any] = {}
        """Variables of ``main``'s body, and the parameters that replace them."""
        self.packings: list[Packing] = []

    def visit(self, main: Any) -> None:
        """Visit the bindings in order."""
        for binding in bindings(main):
            if isinstance(binding, relax.VarBinding) and is_tensor_call(binding.value):
                self._visit_call(binding.var, binding.value)

    def _visit_call(self, variable: Any, call: Any) -> None:
        arguments = list(call.args[1].fields)
        result = call.ty_args[0]
        if (
            not arguments
            or not isinstance(result, relax.TensorType)
            or not all(argument in self.names for argument in arguments)
            or not all(isinstance(extent, tvm.tirx.IntImm) for extent in result.shape)  # known at run time only
        ):
            return
        if _enlarges_package(arguments, result):
            return
        kernel = self.module[call.args[0]]
        if len(call.args) > 2 or not (_only_moves(kernel) or _is_exact(kernel)):
            return
        for attribute in ATTRIBUTES:
            kernel = kernel.without_attr(attribute) if attribute in kernel.attrs else kernel
        sources = tuple(self.names[argument] for argument in arguments)
        if (same := self._find_packed(kernel, sources)) is not None:  # several kernels share a weight
            self.names[variable] = str(same.name)
            self.replaced[variable] = same
            return
        name = unused_name(sources[0].partition("_packed")[0] + "_packed", self.names_in_use)
        parameter = relax.Var(name, relax.TensorType([int(extent) for extent in result.shape], dtype_name(result)))
        self.names[variable] = name
        self.replaced[variable] = parameter
        self.packings.append(Packing(kernel, sources, (name,)))

    def _find_packed(self, kernel: Any, sources: tuple[str, ...]) -> Any | None:
        """The parameter with the same packed weights, or None."""
        for packing in self.packings:
            if packing.sources == sources and tvm_ffi.structural_equal(packing.function, kernel):
                return next(
                    parameter for parameter in self.replaced.values() if str(parameter.name) == packing.results[0]
                )
        return None


@mutator
class _WeightReplacer(PyExprMutator):
    """Replaces variables by parameters."""

    def __init__(self, module: "tvm.IRModule", replaced: dict[Any, Any]):
        super().__init__(module)
        self.replaced = replaced

    def visit_var_(self, op: Any) -> Any:
        """The parameter that replaces a variable, or the variable."""
        return self.replaced.get(op, op) if op in self.replaced else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        """Like :meth:`visit_var_`."""
        return self.replaced[op] if op in self.replaced else super().visit_dataflow_var_(op)


def _enlarges_package(arguments: Sequence[Any], result: Any) -> bool:
    """Whether a kernel's result would enlarge the package: values dequantised from few bits."""
    source = max(arguments, key=_bytes)
    return _bits(result) > _bits(source.ty) and _bytes(result) > sum(map(_bytes, arguments))


def _bytes(tensor: Any) -> int:
    ty = tensor if isinstance(tensor, relax.TensorType) else tensor.ty
    return math.prod(int(extent) for extent in ty.shape) * _bits(ty) // 8


def _bits(ty: Any) -> int:
    return int(tvm.DataType(dtype_name(ty)).bits)


def _only_moves(kernel: Any) -> bool:
    computing: list[Any] = []

    def block(node: Any) -> None:
        computing.extend(axis for axis in node.iter_vars if axis.iter_type == REDUCTION)

    def call(node: Any) -> None:
        if (name := operator_name(node)) and name not in MOVING:
            computing.append(node)

    tvm_ffi.structural_walk(kernel.body, [(tvm.s_tir.SBlock, block), (tvm.ir.Call, call)])
    return not computing


def _is_exact(kernel: Any) -> bool:
    """Whether a kernel only computes with integers, or declares that it is exact."""
    if SAME_EVERYWHERE in kernel.attrs:
        return True
    kinds: list[str] = []

    def note(access: Any) -> None:
        buffer = access.buffer if isinstance(access, tvm.tirx.BufferStore) else access.source
        kinds.append(dtype_name(buffer.ty))

    tvm_ffi.structural_walk(kernel.body, [(tvm.tirx.BufferStore, note), (tvm.ir.TensorLoad, note)])
    return all(kind.startswith(("int", "uint")) for kind in kinds)
