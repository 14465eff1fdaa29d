"""Kernels for GPUs whose expression would grow without bound, as several kernels.

TVM's rules for GPUs put every element-wise step into those that use it. Where each step uses the one before twice (a recurrence
that is written out, an ELU of an ELU), the expression doubles with each, and TVM takes minutes, then hours.
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
"""TVM's kInjective (include/tvm/relax/op_attr_types.h): up to here a value is computed again wherever it is used."""


@dataclass(frozen=True)
class Size:
    """Of the expression that a value is computed by, when all that it is made of is computed where it is used."""

    nodes: int = 1
    choices: int = 0
    steps: Mapping[Any, int] = field(default_factory=dict)
    """The steps that it takes, with the nodes of each."""

    @property
    def copies(self) -> int:
        """Nodes that are there once more than needed."""
        return self.nodes - sum(self.steps.values())

    @property
    def is_too_large(self) -> bool:
        """For one kernel."""
        return self.copies > LARGEST or self.choices > MOST_CHOICES


IN_MEMORY = Size()
"""Of a value that is read."""


@tvm.transform.module_pass(opt_level=0, name="PartLargeKernels")
class PartLargeKernels:
    """Part fused functions that would become too large a kernel. Between FuseOps and FuseTIR."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with several functions in place of each of them."""
        parts = {
            name: found
            for name, function in module.functions_items()
            if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})
            if len(found := _parts(function, module)) > 1 and all(map(_stands_alone, found))
        }
        if not parts:
            return module
        return relax.transform.DeadCodeElimination()(rewritten(module, _KernelSplitter(module, parts)))


@dataclass(frozen=True)
class _Part:
    """Bindings of a function that follow each other."""

    bindings: Sequence[Any]
    inputs: Sequence[Any]
    """Variables of the function that they read."""
    outputs: Sequence[Any]
    """Their variables that are used behind them."""

    def function(self) -> Any:
        """The part as a function of its own."""
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
    """A function as parts, one after the other, each small enough as far as its steps are."""
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
    used = [{name for each in group for name in variables(each.value)} for group in groups]
    parts = []
    for place, group in enumerate(groups):
        own = [each.var for each in group]
        behind = set(variables(function.body.body)).union(*used[place + 1 :])
        read = dict.fromkeys(name for each in group for name in variables(each.value))
        parts.append(_Part(group, [name for name in read if name not in own], [name for name in own if name in behind]))
    return parts


def _size(binding: Any, sizes: Mapping[Any, Size], module: "tvm.IRModule") -> Size:
    """Of what a binding computes.

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
    """Whether a value stays an expression, rather than being kept."""
    return not is_call(value, "call_tir") or int((module[value.args[0]].attrs or {}).get("op_pattern", 8)) <= INJECTIVE


def _stands_alone(part: _Part) -> bool:
    """Whether a part takes and gives tensors only, whose extents say all that its shapes need."""
    crossing = (*part.inputs, *part.outputs)
    return (
        bool(part.outputs)
        and all(isinstance(each.ty, relax.TensorType) for each in crossing)
        and not relax.analysis.free_symbolic_vars(part.function())
    )


@mutator
class _KernelSplitter(PyExprMutator):
    """Calls the parts of functions in place of the functions."""

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
        for place, name in enumerate(part.outputs):
            yield name, result if len(part.outputs) == 1 else self.builder_.emit(relax.TupleGetItem(result, place))
