"""Split a network into parts for CLML and a remainder.

TVM's patterns recognise weights because they are constants. In tvmake weights are arguments of ``main`` until a package
is built. So each weight is replaced by a unique constant while patterns are matched, and restored afterwards; the
partition does not depend on the values of weights.
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
"""Layers that move values without computing."""

ALIGNMENT = 64
"""Alignment of a tensor's memory, in bytes."""


@dataclass(frozen=True)
class Part:
    """A function for CLML to compute."""

    function: "relax.Function"
    """Takes the inputs, then the weights; calls composites in sequence."""
    weights: tuple[Any, ...]
    """The weights in the order of the arguments: names of ``main``'s arguments, or constants."""

    @property
    def parameters(self) -> list[str]:
        """The weights that are arguments of ``main``."""
        return [weight for weight in self.weights if isinstance(weight, str)]

    @property
    def is_worth_it(self) -> bool:
        """Whether the part computes anything: moving values saves no time, and copies into CLML's layout cost some."""
        return any(not name.endswith(MOVES) for name in composites(self.function))


@dataclass(frozen=True)
class Partition:
    """A network in parts."""

    module: "tvm.IRModule"
    """``main`` keeps its arguments, and calls the parts without their weights."""
    parts: Mapping[str, Part]
    """Parts by the name of the function that ``main`` calls, in the order of the calls."""

    @property
    def chosen(self) -> dict[str, Part]:
        """The parts that CLML computes."""
        return {name: part for name, part in self.parts.items() if part.is_worth_it}


def partition(module: "tvm.IRModule", inputs: int) -> Partition:
    """Split a network into parts.

    Args:
        inputs: number of network inputs among ``main``'s arguments; the others are weights.
    """
    if relax.analysis.defined_symbolic_vars(module["main"]):
        return Partition(module, {})
    cut, weights = _cut(copy_module(module), inputs)
    parts: dict[str, Part] = {}
    functions: dict[Any, Any] = {}
    for variable, function in cut.functions_items():
        is_part = isinstance(function, relax.Function) and _is_part(function)
        back = _PartWeightRestorer(cut, weights, takes_constants=is_part)
        if is_part:
            rewritten = back.visit_expr(function)
            used = tuple(str(weight.name) if constant is None else constant for weight, constant in back.used.items())
            parts[str(variable.name_hint)] = Part(
                relax.utils.copy_with_new_vars(_with_parameters(rewritten, back.used)), used
            )
        elif str(variable.name_hint) == "main":
            # All weights in their original order, used or not.
            functions[variable] = _with_parameters(back.visit_expr(function), weights.values())
        else:
            functions[variable] = function
    whole = tvm.IRModule(functions, attrs=module.attrs, global_infos=cut.global_infos)
    return Partition(whole, {name: parts[name] for name in _called_functions(whole["main"]) if name in parts})


def _cut(module: "tvm.IRModule", inputs: int) -> tuple["tvm.IRModule", dict[int, Any]]:
    """The partitioned network with constants for weights, and the weights by the data address of their constant."""
    weights = module["main"].params[inputs:]
    constants = {str(weight.name): _constant(index, weight.ty) for index, weight in enumerate(weights)}
    passes = relax.transform
    # ConvertLayout fails if nothing needs conversion.
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
    """A tensor unlike all others, so that no pass merges two; most of its pages are never touched."""
    shape, dtype = [int(extent) for extent in ty.shape], np.dtype(dtype_name(ty))
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(count + 2 * ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    data = raw[start : start + count]
    mark = np.frombuffer(index.to_bytes(8, "little"), np.uint8)[: min(count, 8)]
    data[: len(mark)] = mark
    return tvm.runtime.from_dlpack(data.view(dtype).reshape(shape))


@mutator
class _PartWeightRestorer(PyExprMutator):
    """Replaces constants by their weights."""

    def __init__(self, module: "tvm.IRModule", weights: Mapping[int, Any], takes_constants: bool):
        super().__init__(module)
        self.weights = dict(weights)
        self.takes_constants = takes_constants
        self.used: dict[Any, Any] = {}
        """The weights in order of use; the value is the constant, or None for an argument of ``main``."""

    def visit_generic_const_(self, op: Any) -> Any:
        if not isinstance(op.value, tvm.runtime.Tensor):
            return op
        address = op.value.data_ptr()
        if address in self.weights:
            weight = self.weights[address]
            self.used.setdefault(weight, None)
            return weight
        if not self.takes_constants:
            return op
        weight = self.weights[address] = relax.Var(f"constant{len(self.used)}", op.ty)
        self.used[weight] = op
        return weight


def _with_parameters(function: Any, more: Iterable[Any]) -> Any:
    """A function with additional parameters."""
    return relax.Function([*function.params, *more], function.body, function.ret_ty, function.is_pure, function.attrs)


def _is_part(function: Any) -> bool:
    return function.attrs is not None and "Codegen" in function.attrs and str(function.attrs["Codegen"]) == CODEGEN


def composites(function: Any) -> list[str]:
    """The names of a part's matched patterns, in order."""
    return [
        str(binding.value.attrs["Composite"])
        for binding in bindings(function)
        if isinstance(binding.value, relax.Function)
    ]


def _called_functions(main: Any) -> list[str]:
    names = []
    for binding in bindings(main):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, relax.GlobalVar):
            names.append(str(value.op.name_hint))
    return names
