"""Split GPU kernels whose expressions would grow without bound.

TVM's rules for GPUs inline every element-wise step into its users. If each step uses the previous one twice (an
unrolled recurrence, an ELU of an ELU), the expression doubles with each step, and TVM takes minutes, then hours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables, with_values
from tvmake.ir.rewriting import rewritten
from tvmake.targets.cpu.schedules.accesses import loads_in
from tvmake.targets.kernels.expression_size import LARGEST, MOST_CHOICES, nested_choices, nodes

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

INJECTIVE = 2
"""TVM's kInjective (include/tvm/relax/op_attr_types.h): up to this level, values are recomputed at each use."""


@dataclass(frozen=True)
class Size:
    """The size of a value's expression after inlining all its operands."""

    nodes: int = 1
    choices: int = 0
    steps: Mapping[Any, int] = field(default_factory=dict)
    """The steps in it, with the nodes of each."""

    @property
    def copies(self) -> int:
        """Repeated nodes."""
        return self.nodes - sum(self.steps.values())

    @property
    def is_too_large(self) -> bool:
        """Whether one kernel cannot compute it."""
        return self.copies > LARGEST or self.choices > MOST_CHOICES


IN_MEMORY = Size()
"""The size of a value that is read from memory."""


@tvm.transform.module_pass(opt_level=0, name="PartLargeKernels")
def split_large_kernels(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Split fused functions that would become too large kernels. Runs between FuseOps and FuseTIR."""
    parts = {
        name: function_parts
        for name, function in module.functions_items()
        if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})
        if len(function_parts := _parts(function, module)) > 1 and all(map(_is_self_contained, function_parts))
    }
    if not parts:
        return module
    return relax.transform.DeadCodeElimination()(rewritten(module, _KernelSplitter(module, parts)))


@dataclass(frozen=True)
class _Part:
    """Consecutive bindings of a function."""

    bindings: Sequence[Any]
    inputs: Sequence[Any]
    """Variables of the function that they read."""
    outputs: Sequence[Any]
    """Their variables that are used after them."""

    def function(self) -> Any:
        """The part as a separate function."""
        names = {variable: relax.Var(str(variable.name), variable.ty) for variable in self.inputs}
        builder = relax.BlockBuilder()
        with builder.function("part", list(names.values()), attrs={"Primitive": True}, private=True):
            with builder.dataflow():
                for binding in self.bindings:
                    emit = builder.emit_output if binding.var in self.outputs else builder.emit
                    names[binding.var] = emit(with_values(binding.value, names))
            results = [names[variable] for variable in self.outputs]
            builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
        return builder.get()["part"]


def _parts(function: Any, module: "tvm.IRModule") -> list[_Part]:
    """Split a function into consecutive parts, each small enough unless a single step is too large."""
    groups: list[list[Any]] = [[]]
    sizes: dict[Any, Size] = {}
    for binding in bindings(function):
        size = _size(binding, sizes, module)
        if groups[-1] and size.is_too_large:
            groups.append([])
            sizes.clear()
            size = _size(binding, sizes, module)
        groups[-1].append(binding)
        sizes[binding.var] = size if _is_computed_again(binding.value, module) else IN_MEMORY
    used = [{name for binding in group for name in variables(binding.value)} for group in groups]
    parts = []
    for position, group in enumerate(groups):
        own = [binding.var for binding in group]
        later_uses = set(variables(function.body.body)).union(*used[position + 1 :])
        read = dict.fromkeys(name for binding in group for name in variables(binding.value))
        parts.append(
            _Part(group, [name for name in read if name not in own], [name for name in own if name in later_uses])
        )
    return parts


def _size(binding: Any, sizes: Mapping[Any, Size], module: "tvm.IRModule") -> Size:
    """The size of a binding's expression.

    Args:
        sizes: of the variables that are not in memory.
    """
    value = binding.value
    if not is_call(value, "call_tir"):
        read = [sizes.get(variable, IN_MEMORY) for variable in variables(value)]
        return max(read, key=lambda size: size.nodes, default=IN_MEMORY)
    kernel = module[value.args[0]]
    operands = dict(zip(kernel.params, value.args[1].fields, strict=False))

    def size_of(load: Any) -> Size:
        return sizes.get(operands.get(load.source), IN_MEMORY)

    read = [size_of(load) for load in loads_in(kernel.body)]
    own = nodes(kernel.body)
    steps = {binding.var: own} | {step: count for size in read for step, count in size.steps.items()}
    return Size(
        own + sum(size.nodes - IN_MEMORY.nodes for size in read),
        nested_choices(kernel.body, lambda load: size_of(load).choices),
        steps,
    )


def _is_computed_again(value: Any, module: "tvm.IRModule") -> bool:
    """Whether a value is recomputed at each use rather than stored."""
    return not is_call(value, "call_tir") or int((module[value.args[0]].attrs or {}).get("op_pattern", 8)) <= INJECTIVE


def _is_self_contained(part: _Part) -> bool:
    """Whether a part has only tensors as inputs and outputs, and their extents define all its shapes."""
    variables_across = (*part.inputs, *part.outputs)
    return (
        bool(part.outputs)
        and all(isinstance(binding.ty, relax.TensorType) for binding in variables_across)
        and not relax.analysis.free_symbolic_vars(part.function())
    )


@mutator
class _KernelSplitter(PyExprMutator):
    """Replaces calls of functions by calls of their parts."""

    def __init__(self, module: "tvm.IRModule", parts: Mapping[Any, Sequence[_Part]]) -> None:
        super().__init__(module)
        self.module, self.parts = module, parts

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        parts = self.parts.get(call.op)
        if parts is None:
            return call
        function = self.module[call.op]
        values = dict(zip(function.params, call.args, strict=True))
        for part in parts:
            values.update(self._results(part, values))
        return with_values(function.body.body, values)

    def _results(self, part: _Part, values: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        variable = self.builder_.add_func(part.function(), "part")
        result = self.builder_.emit(relax.Call(variable, [values[name] for name in part.inputs]))
        for position, name in enumerate(part.outputs):
            yield name, result if len(part.outputs) == 1 else self.builder_.emit(relax.TupleGetItem(result, position))
