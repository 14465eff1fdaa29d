"""The steps that prepare an exported program for TVM's importer, in order."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import tvm
from torch import fx
from torch._decomp import get_decompositions
from torch.export import ExportedProgram, default_decompositions
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch import refusals
from tvmake.frontend.torch.branches import compute_both_branches
from tvmake.frontend.torch.constant_dims import resolve_constant_dims
from tvmake.frontend.torch.constants import compute_constants
from tvmake.frontend.torch.higher_order_ops import unroll_higher_order_ops
from tvmake.frontend.torch.item_index import rewrite_item_index
from tvmake.frontend.torch.operators.complex.complex_numbers import replace_complex_numbers
from tvmake.frontend.torch.operators.masks.selection import replace_mask_selections
from tvmake.frontend.torch.operators.matrices.grouped_matmul import library_decompositions
from tvmake.frontend.torch.operators.multi_output_ops import MULTI_OUTPUT_DECOMPOSITIONS, uses_later_outputs
from tvmake.frontend.torch.operators.quantized import convert_scale_dtypes
from tvmake.frontend.torch.operators.spatial.dynamic_resize import DYNAMIC_RESIZES
from tvmake.frontend.torch.operators.spatial.resize import UNDECOMPOSED
from tvmake.frontend.torch.operators.table import CONVERTERS, DECOMPOSITIONS
from tvmake.frontend.torch.promotion import promote
from tvmake.frontend.torch.scalars import compute_as_tensors
from tvmake.frontend.torch.states import check_states, declare_written_tensors

from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter  # isort: skip

ASSERTIONS = (
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
)


@dataclass
class Preparation:
    """A program and its dimensions between two steps."""

    where: str
    """The source, for errors."""
    program: ExportedProgram
    extents: exported.Extents
    """The sizes or names that the config gives to the program's dynamic dimensions."""
    kept_inputs: Sequence[str] = ()
    """The inputs that are states if the program writes to them."""


Step = Callable[[Preparation], None]


def _in_place(change: Callable[[ExportedProgram], object]) -> Step:
    """A step that changes the program's graph."""

    def step(state: Preparation) -> None:
        change(state.program)

    return step


def _with_source(change: Callable[[str, ExportedProgram], None]) -> Step:
    """A step that may refuse the program, so it takes the source's name."""
    return lambda state: change(state.where, state.program)


def _fix_derived_dims(state: Preparation) -> None:
    """Fix dimensions that Relax cannot resolve: it learns a symbol's value only if the symbol alone is a dimension.

    A program with an input dimension ``2*s0``, but no dimension ``s0``, is exported again with the configured shapes.
    """
    program, extents = state.program, state.extents
    inputs = _input_values(program)
    expressions = [extent.node.expr for value in inputs for extent in value.shape if isinstance(extent, torch.SymInt)]
    symbols = {symbol for expression in expressions for symbol in expression.free_symbols}
    dimensions = {expression for expression in expressions if expression.is_Symbol}
    if symbols <= dimensions:
        return
    fixed = {symbol for symbol, extent in extents.items() if isinstance(extent, int)}
    if symbols - fixed:
        derived = next(expression for expression in expressions if not expression.is_Symbol)
        problem = f"TVM cannot resolve the dynamic dimension {derived}, because {symbols - dimensions} is not a dimension itself"
        raise InputError(state.where, problem.replace("{", "").replace("}", ""), "give all inputs a fixed `shape`")
    shapes = [spec.shape for spec in exported.signature(state.where, program, extents).inputs]
    state.program, state.extents = _export_with_shapes(program, shapes), {}


def _export_with_shapes(program: ExportedProgram, shapes: Sequence[Sequence[Any]]) -> ExportedProgram:
    example = [
        torch.zeros(shape, dtype=value.dtype) for shape, value in zip(shapes, _input_values(program), strict=True)
    ]
    args, kwargs = pytree.tree_unflatten(example, program.call_spec.in_spec)
    return _run_decompositions(torch.export.export(program.module(), args, kwargs))


def _fix_constant_dims(state: Preparation) -> None:
    """Fix dimensions that depend on parameters only, if the inputs have fixed shapes."""
    inputs = _input_values(state.program)
    if not any(map(free_symbols, inputs)) and resolve_constant_dims(state.program):
        state.program = _export_with_shapes(state.program, [value.shape for value in inputs])


def _input_values(program: ExportedProgram) -> list[torch.Tensor]:
    """The fake tensors of the inputs, in order."""
    return [node.meta["val"] for node in exported.input_nodes(program)]


def _decompose(state: Preparation) -> None:
    """Decompose the program into PyTorch's core operators and those that have a converter."""
    try:
        state.program = _run_decompositions(state.program)
    except RuntimeError as error:
        if (refusal := refusals.mutated_constant_error(state.where, error)) is not None:
            raise refusal from error
        raise


def _check_states(state: Preparation) -> None:
    check_states(state.where, state.program, state.kept_inputs)


def _run_decompositions(program: ExportedProgram) -> ExportedProgram:
    """Decompose a program into PyTorch's core operators and those that have a converter."""
    table = default_decompositions()
    for operator in UNDECOMPOSED:
        values = [node.meta["val"] for node in exported.calls(program) if node.target is operator]
        if not any(free_symbols(value) for value in values):
            table.pop(operator, None)
    for node in exported.calls(program):
        if node.target in DYNAMIC_RESIZES and free_symbols(node.meta["val"]):
            table.pop(node.target, None)
    with _without_tracebacks():
        core = program.run_decompositions({**table, **DECOMPOSITIONS, **library_decompositions(program)})
        is_changed = unroll_higher_order_ops(core) | rewrite_item_index(core) | compute_as_tensors(core)
        core = core.run_decompositions({**table, **DECOMPOSITIONS}) if is_changed else core
        core = (
            core.run_decompositions(dict(MULTI_OUTPUT_DECOMPOSITIONS))
            if any(map(uses_later_outputs, exported.calls(core)))
            else core
        )
    _drop_checks(core)
    return core


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Disable a logger that prints the tracebacks of errors that PyTorch raises for incompatible shapes."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_disabled


def _drop_checks(program: ExportedProgram) -> None:
    """Remove checks of values at run time: TVM's virtual machine has them in Python only."""
    for graph in exported.graphs(program):
        for node in reversed(graph.nodes):
            if node.target in ASSERTIONS and not node.users:
                graph.erase_node(node)
        graph.eliminate_dead_code()


def _decompose_unknown(state: Preparation) -> None:
    """Decompose operators without a converter, if PyTorch can and the resulting operators have one."""
    for target in sorted(_unsupported_operators(state.program), key=str):
        state.program = _decompose_operator(state.program, target) or state.program


def _decompose_operator(program: ExportedProgram, target: torch._ops.OpOverload) -> ExportedProgram | None:
    """Decompose one operator of a program; None if that leads to other operators without a converter."""
    known, table = _unsupported_operators(program), get_decompositions([target])
    while table:
        try:
            with _without_tracebacks():
                decomposed = program.run_decompositions(table)
        except AssertionError:  # PyTorch's export refuses decompositions that write in place
            return None
        new = _unsupported_operators(decomposed) - known
        if not new:
            return decomposed
        further = get_decompositions(list(new))
        if further.keys() <= table.keys():
            return None
        table |= further
    return None


def _unsupported_operators(program: ExportedProgram) -> set[torch._ops.OpOverload]:
    return {node.target for node in _unsupported_nodes(program) if isinstance(node.target, torch._ops.OpOverload)}


def _unsupported_nodes(program: ExportedProgram) -> list[fx.Node]:
    known = {*ExportedProgramImporter().convert_map, *CONVERTERS}
    return [node for node in exported.calls(program) if node.target.__name__ not in known]


def _refuse_unsupported(where: str, program: ExportedProgram) -> None:
    unknown = _unsupported_nodes(program)
    missing = Counter(str(node.target) for node in [*unknown, *filter(uses_later_outputs, exported.calls(program))])
    if missing:
        listing = ", ".join(f"{operator} ({count}×)" for operator, count in sorted(missing.items()))
        plural = "operator has" if len(missing) == 1 else "operators have"
        names = [exported.operator_name(node) for node in unknown]
        reason = next((refusals.WITHOUT_IMPORTER[name] for name in names if name in refusals.WITHOUT_IMPORTER), _REMEDY)
        raise InputError(
            where,
            f"{len(missing)} {plural} no importer in TVM {tvm.__version__}: {listing}",
            _LOOP_REMEDY if "while_loop" in missing else reason,
        )


_REMEDY = "rewrite those parts of forward() with other operators, or export the model to ONNX and import that"
_LOOP_REMEDY = "the number of iterations of while_loop depends on values: write it as a Python loop of a fixed number of steps, and end it with torch.where"


PREPARATIONS: tuple[Step, ...] = (
    _with_source(declare_written_tensors),
    _decompose,
    _in_place(exported.drop_unread_state),
    _check_states,  # after decomposition, which removes operators that change tensors in place
    _with_source(refusals.refuse_random_numbers),
    _in_place(replace_mask_selections),
    _fix_constant_dims,
    _with_source(refusals.refuse_shapes_of_data),
    _fix_derived_dims,
    _in_place(compute_both_branches),
    _with_source(replace_complex_numbers),
    _in_place(compute_constants),
    _in_place(convert_scale_dtypes),
    _decompose_unknown,
    _in_place(promote),
    _with_source(_refuse_unsupported),
)
"""The steps that prepare an exported program for the importer, in order."""


def prepare(
    where: str, program: ExportedProgram, extents: exported.Extents, kept_inputs: Sequence[str] = ()
) -> Preparation:
    """Apply all preparations to a program.

    Raises:
        InputError: the program changes what cannot be a state, draws random numbers, has shapes that depend on data, or uses
            operators that nothing converts (all of them are listed).
    """
    state = Preparation(where, program, extents, kept_inputs)
    for step in PREPARATIONS:
        step(state)
    return state
