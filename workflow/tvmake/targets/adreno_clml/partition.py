"""Cut a network into what CLML computes and the rest.

TVM's patterns tell weights from activations by their being constants, which tvmake's are not: they are arguments of
``main``, and known only when a package is built. Here each is replaced by a constant of its own while patterns are
matched, and put back; the cut does not depend on what weights hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import bindings, dtype_name, is_call
from tvmake.targets.adreno_clml.patterns import pattern_table
from tvmake.targets.copy_module import copy_module

from tvm import relax  # isort: skip
from tvm.relax.backend.adreno import clml as tvm_clml  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

CODEGEN = "openclml"

LAYOUTS = {"relax.nn.conv2d": ["NCHW", "OIHW"]}

MOVES = ("reshape", "nn.pad", "nn.depth_to_space")
"""Layers that move values and compute none."""

ALIGNMENT = 64
"""Bytes, of a tensor's memory."""


@dataclass(frozen=True)
class Part:
    """A function that CLML is to compute."""

    function: "relax.Function"
    """Takes what differs from run to run, then its weights; calls composites, one after the other."""
    weights: tuple[Any, ...]
    """What of ``main`` the weights are, in the order of the arguments: the names of its arguments, or constants."""

    @property
    def parameters(self) -> list[str]:
        """The weights that are arguments of ``main``."""
        return [one for one in self.weights if isinstance(one, str)]

    @property
    def is_worth_it(self) -> bool:
        """Whether there is something to compute: moving values is no work, and copies into CLML's layout are."""
        return any(not name.endswith(MOVES) for name in composites(self.function))


@dataclass(frozen=True)
class Partition:
    """A network in parts."""

    module: "tvm.IRModule"
    """``main`` takes what it took, and calls the parts without their weights."""
    parts: Mapping[str, Part]
    """By the name of the function that ``main`` calls, in the order of the calls."""

    @property
    def chosen(self) -> dict[str, Part]:
        """Those that CLML gets."""
        return {name: part for name, part in self.parts.items() if part.is_worth_it}


def partition(module: "tvm.IRModule", inputs: int) -> Partition:
    """Cut a network into parts.

    Args:
        inputs: how many of ``main``'s arguments are the network's inputs; the others are weights.
    """
    if relax.analysis.defined_symbolic_vars(module["main"]):
        return Partition(module, {})
    cut, weights = _cut(copy_module(module), inputs)
    found: dict[str, Part] = {}
    kept: dict[Any, Any] = {}
    for variable, function in cut.functions_items():
        is_part = isinstance(function, relax.Function) and _is_part(function)
        back = _PartWeightRestorer(cut, weights, takes_constants=is_part)
        if is_part:
            rewritten = back.visit_expr(function)
            used = tuple(str(weight.name) if constant is None else constant for weight, constant in back.used.items())
            found[str(variable.name_hint)] = Part(relax.utils.copy_with_new_vars(_taking(rewritten, back.used)), used)
        elif str(variable.name_hint) == "main":
            # All of them, in the order in which they were, used or not.
            kept[variable] = _taking(back.visit_expr(function), weights.values())
        else:
            kept[variable] = function
    whole = tvm.IRModule(kept, attrs=module.attrs, global_infos=cut.global_infos)
    return Partition(whole, {name: found[name] for name in _called(whole["main"]) if name in found})


def _cut(module: "tvm.IRModule", inputs: int) -> tuple["tvm.IRModule", dict[int, Any]]:
    """The cut network with constants for weights, and the weights by the address of their constant."""
    weights = module["main"].params[inputs:]
    constants = {str(weight.name): _constant(index, weight.ty) for index, weight in enumerate(weights)}
    passes = relax.transform
    # Where nothing is to be converted, ConvertLayout could only fail.
    converted = [] if _is_in_layout(module) else [passes.ConvertLayout(LAYOUTS), passes.Normalize()]
    cut = tvm.transform.Sequential(
        [
            passes.BindParams("main", constants),
            *converted,
            tvm_clml.AppendReshapeToBNRewriterPass(),
            passes.FuseOpsByPattern(pattern_table()),
            passes.MergeCompositeFunctions(),
        ]
    )(module)
    return cut, {constants[str(weight.name)].data_ptr(): weight for weight in weights}


def _is_in_layout(module: "tvm.IRModule") -> bool:
    """Whether all convolutions have CLML's layout."""
    layouts: set[tuple[str, str]] = set()

    def note(node: Any) -> None:
        if is_call(node, "nn.conv2d"):
            layouts.add((str(node.attrs.data_layout), str(node.attrs.kernel_layout)))

    relax.analysis.post_order_visit(module["main"].body, note)
    return layouts <= {tuple(layout) for layout in LAYOUTS.values()}


def _constant(index: int, ty: Any) -> "tvm.runtime.Tensor":
    """A tensor unlike the others, so that no pass takes two for one; its pages are not touched."""
    shape, dtype = [int(extent) for extent in ty.shape], np.dtype(dtype_name(ty))
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(count + 2 * ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    taken = raw[start : start + count]
    mark = np.frombuffer(index.to_bytes(8, "little"), np.uint8)[: min(count, 8)]
    taken[: len(mark)] = mark
    return tvm.runtime.from_dlpack(taken.view(dtype).reshape(shape))


@mutator
class _PartWeightRestorer(PyExprMutator):
    """Puts weights in the place of their constants."""

    def __init__(self, module: "tvm.IRModule", weights: Mapping[int, Any], takes_constants: bool):
        super().__init__(module)
        self.weights = dict(weights)
        self.takes_constants = takes_constants
        self.used: dict[Any, Any] = {}
        """The weights in the order of their use, with the constant that one is if it is no argument of ``main``."""

    def visit_generic_const_(self, op: Any) -> Any:
        if not isinstance(op.value, tvm.runtime.Tensor):
            return op
        place = op.value.data_ptr()
        if place in self.weights:
            weight = self.weights[place]
            self.used.setdefault(weight, None)
            return weight
        if not self.takes_constants:
            return op
        weight = self.weights[place] = relax.Var(f"constant{len(self.used)}", op.ty)
        self.used[weight] = op
        return weight


def _taking(function: Any, more: Iterable[Any]) -> Any:
    """A function with more arguments."""
    return relax.Function([*function.params, *more], function.body, function.ret_ty, function.is_pure, function.attrs)


def _is_part(function: Any) -> bool:
    return function.attrs is not None and "Codegen" in function.attrs and str(function.attrs["Codegen"]) == CODEGEN


def composites(function: Any) -> list[str]:
    """The names of what was matched in a part, in order."""
    return [
        str(binding.value.attrs["Composite"])
        for binding in bindings(function)
        if isinstance(binding.value, relax.Function)
    ]


def _called(main: Any) -> list[str]:
    names = []
    for binding in bindings(main):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, relax.GlobalVar):
            names.append(str(value.op.name_hint))
    return names
