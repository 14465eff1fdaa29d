"""Move the packing of weights from the graph to the build of a package.

A kernel tuned with layout-free weights starts with blocks that copy each weight into the layout of its loops. This
module makes separate functions of these blocks, and ``main`` takes packed weights instead of the original ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.weights.names import unused_name
from tvmake.targets.weights.layout_free import is_tensor_call, tensor_calls

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

MARK = "meta_schedule.layout_rewrite_preproc"
"""MetaSchedule's annotation of such copies."""


@dataclass(frozen=True)
class SplitKernel:
    """A kernel in two parts."""

    packing: "tvm.tirx.PrimFunc"
    """Takes the original weights, then the packed ones to write."""
    compute: "tvm.tirx.PrimFunc"
    """The kernel on packed weights."""
    packed: tuple[int, ...]
    """Indices of the packed arguments, in the order of ``packing``'s parameters."""


@dataclass(frozen=True)
class Packing:
    """One run of a packing function: from parameters of the model to parameters of ``main``."""

    function: "tvm.tirx.PrimFunc"
    sources: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Prepacked:
    """A graph that takes packed weights."""

    module: "tvm.IRModule"
    packings: tuple[Packing, ...]
    """Runs that pack the model's parameters; parameters of ``main`` that are in no result are the model's."""


def split(kernel: "tvm.tirx.PrimFunc") -> SplitKernel | None:
    """Separate a kernel from the packing of its weights; None if it packs none."""
    if not _packs(kernel):
        return None
    builder = relax.BlockBuilder()
    # Dimensions that are not in any tensor's shape are arguments, too.
    *arguments, result = [
        relax.Var(f"a{index}", _tensor(parameter.ty)) if hasattr(parameter.ty, "shape") else parameter
        for index, parameter in enumerate(kernel.params)
    ]
    # The fusion pattern would make equal packings differ.
    plain = kernel.without_attr("global_symbol").without_attr("op_pattern")
    variable = builder.add_func(plain, "kernel")
    with builder.function("main", arguments):
        with builder.dataflow():
            # The pass only looks at calls, whatever the number of results among their arguments.
            value = builder.emit_output(relax.call_tir(variable, arguments, result.ty))
        builder.emit_func_output(value)
    parts = relax.transform.SplitLayoutRewritePreproc()(builder.get())
    packing = next(call for call in tensor_calls(parts) if call.args[0].name_hint == "kernel_weight_prepack")
    positions = {str(argument.name): index for index, argument in enumerate(parts["main"].params)}
    return SplitKernel(
        packing=parts["kernel_weight_prepack"],
        compute=parts["kernel_prepacked"],
        packed=tuple(positions[str(argument.name)] for argument in packing.args[1].fields),
    )


def packed_width(packing: "tvm.tirx.PrimFunc") -> int | None:
    """The number of adjacent results for which a packing function orders one weight; None for other layouts.

    Rules for CPUs choose layouts with the axes (tile, others, lane), and perhaps one more with products of one lane.
    """
    if len(packing.params) != 2:  # a weight and its packed form
        return None
    source, result = (list(parameter.ty.shape) for parameter in packing.params)
    added = len(result) - len(source)
    return int(result[-added]) if added in (1, 2) else None


def kernel_widths(module: "tvm.IRModule", width_of: Callable[[str], int | None]) -> dict[str, int]:
    """The numbers of adjacent results for which kernels' weights are packed already, by kernel.

    Args:
        width_of: that of a weight by its name; None if it is not packed.
    """
    widths: dict[str, int] = {}
    for call in tensor_calls(module):
        for argument in call.args[1].fields:
            width = width_of(str(getattr(argument, "name", "")))
            if width is not None:
                widths.setdefault(str(call.args[0].name_hint), width)
    return widths


def prepack(module: "tvm.IRModule", inputs: int) -> Prepacked:
    """Pass packed weights to ``main``: each follows its source, which is removed when nothing uses it.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
    """
    splits = {
        str(variable.name_hint): parts
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc) and (parts := split(function)) is not None
    }
    if not splits:
        return Prepacked(module, ())
    splits = _share_packings(splits)
    functions = {}
    for variable, function in module.functions_items():
        if parts := splits.get(str(variable.name_hint)):
            # A separate variable, because its type describes the kernel's arguments; block builders set the type.
            functions[relax.BlockBuilder().add_func(parts.compute, variable.name_hint)] = parts.compute
        else:
            functions[variable] = function
    changed = tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)
    packer = _WeightPacker(changed, splits, [str(parameter.name) for parameter in module["main"].params])
    main = packer.visit_expr(module["main"])
    used = set(relax.analysis.free_vars(main.body))
    weights = [
        variable
        for parameter in main.params[inputs:]
        for variable in (parameter, *packer.packed.get(str(parameter.name), ()))
        if variable in used or str(parameter.name) not in packer.packed
    ]
    changed["main"] = relax.Function(
        [*main.params[:inputs], *weights], main.body, main.ret_ty, main.is_pure, main.attrs, main.span
    )
    return Prepacked(changed, tuple(packer.packings.values()))


def _share_packings(splits: Mapping[str, SplitKernel]) -> dict[str, SplitKernel]:
    """Let kernels with equal packings share one, so that a shared weight is stored once."""
    packings: list[tvm.tirx.PrimFunc] = []
    shared = {}
    for name, parts in splits.items():
        packing = parts.packing.without_attr("global_symbol")
        same = next((known for known in packings if tvm_ffi.structural_equal(known, packing)), None)
        if same is None:
            packings.append(packing)
        shared[name] = replace(parts, packing=packing if same is None else same)
    return shared


@mutator
class _WeightPacker(PyExprMutator):
    """Replaces weights in calls by new variables for packed weights."""

    def __init__(self, module: "tvm.IRModule", splits: Mapping[str, SplitKernel], names: list[str]):
        super().__init__(module)
        self.module = module
        self.splits = splits
        self.names = set(names)
        """Names of all parameters, including packed ones."""
        self.packings: dict[tuple[Any, ...], Packing] = {}
        """Packings by function and sources."""
        self.packed: dict[str, list[Any]] = {}
        """The packed weights by source."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = str(call.args[0].name_hint) if is_tensor_call(call) else ""
        if name not in self.splits:
            return call
        positions, arguments = self.splits[name].packed, list(call.args[1].fields)
        for position, weight in zip(
            positions, self._weights(name, [arguments[position] for position in positions]), strict=True
        ):
            arguments[position] = weight
        return relax.call_tir(self.module.get_global_var(name), arguments, list(call.ty_args))

    def _weights(self, kernel: str, sources: list[Any]) -> list[Any]:
        """The packed forms of weights; reuses equal packings."""
        names = tuple(str(source.name) for source in sources)
        parts = self.splits[kernel]
        key = parts.packing, *names
        if key not in self.packings:
            packed = [
                relax.Var(unused_name(name.partition("_packed")[0] + "_packed", self.names), _tensor(parameter.ty))
                for name, parameter in zip(names, parts.packing.params[len(names) :], strict=True)
            ]
            for name, weight in zip(names, packed, strict=True):
                self.packed.setdefault(name, []).append(weight)
            results = tuple(str(weight.name) for weight in packed)
            self.packings[key] = Packing(parts.packing, names, results)
        results = self.packings[key].results
        weights = {str(weight.name): weight for name in names for weight in self.packed[name]}
        return [weights[name] for name in results]


def _tensor(ty: Any) -> Any:
    return relax.TensorType(list(ty.shape), str(ty.dtype))


def _packs(kernel: "tvm.tirx.PrimFunc") -> bool:
    marked: list[Any] = []
    tvm_ffi.structural_walk(
        kernel.body, (tvm.s_tir.SBlock, lambda block: marked.append(block) if MARK in block.annotations else None)
    )
    return bool(marked)
