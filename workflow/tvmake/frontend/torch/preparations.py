"""What is done to an exported program before it is imported, in order."""

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
from tvmake.frontend.torch.higher_order_ops import write_out
from tvmake.frontend.torch.item_index import rewrite_item_index
from tvmake.frontend.torch.operators.complex.complex_numbers import replace_complex_numbers
from tvmake.frontend.torch.operators.masks.selection import choose_by_masks
from tvmake.frontend.torch.operators.matrices.grouped_matmul import of_libraries
from tvmake.frontend.torch.operators.multi_output_ops import FURTHER, asks_for_further
from tvmake.frontend.torch.operators.quantized import settle_scales
from tvmake.frontend.torch.operators.spatial.dynamic_resize import DYNAMIC_RESIZES
from tvmake.frontend.torch.operators.spatial.resize import KEPT
from tvmake.frontend.torch.operators.table import CONVERTERS, DECOMPOSITIONS
from tvmake.frontend.torch.promotion import promote
from tvmake.frontend.torch.scalars import compute_as_tensors

from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter  # isort: skip

CHECKS = (
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
)


@dataclass
class Preparation:
    """A program under preparation."""

    where: str
    """The source, for errors."""
    program: ExportedProgram
    extents: exported.Extents
    """What the config makes of the program's dynamic dimensions."""


Step = Callable[[Preparation], None]


def _in_place(change: Callable[[ExportedProgram], object]) -> Step:
    """A step that changes the program's graph."""

    def step(state: Preparation) -> None:
        change(state.program)

    return step


def _with_source(change: Callable[[str, ExportedProgram], None]) -> Step:
    """A step that may refuse the program, and so needs the source's name."""
    return lambda state: change(state.where, state.program)


def _fix_derived_dims(state: Preparation) -> None:
    """Fix dimensions that Relax could not resolve: it learns a symbol's value only if the symbol alone is a dimension.

    A program whose input has the dimension ``2*s0``, with ``s0`` nowhere alone, is exported again with the shapes given.
    """
    program, extents = state.program, state.extents
    inputs = _input_values(program)
    expressions = [extent.node.expr for value in inputs for extent in value.shape if isinstance(extent, torch.SymInt)]
    symbols = {symbol for expression in expressions for symbol in expression.free_symbols}
    alone = {expression for expression in expressions if expression.is_Symbol}
    if symbols <= alone:
        return
    fixed = {symbol for symbol, extent in extents.items() if isinstance(extent, int)}
    if symbols - fixed:
        derived = next(expression for expression in expressions if not expression.is_Symbol)
        problem = f"TVM cannot resolve the dynamic extent {derived}, where {symbols - alone} is no extent of its own"
        raise InputError(state.where, problem.replace("{", "").replace("}", ""), "give all inputs a fixed `shape`")
    shapes = [spec.shape for spec in exported.signature(state.where, program, extents).inputs]
    state.program, state.extents = _exported_again(program, shapes), {}


def _exported_again(program: ExportedProgram, shapes: Sequence[Sequence[Any]]) -> ExportedProgram:
    example = [
        torch.zeros(shape, dtype=value.dtype) for shape, value in zip(shapes, _input_values(program), strict=True)
    ]
    args, kwargs = pytree.tree_unflatten(example, program.call_spec.in_spec)
    return _decomposed(torch.export.export(program.module(), args, kwargs))


def _fix_constant_dims(state: Preparation) -> None:
    """Fix dimensions that depend on parameters alone, if the inputs have fixed shapes."""
    inputs = _input_values(state.program)
    if not any(map(free_symbols, inputs)) and resolve_constant_dims(state.program):
        state.program = _exported_again(state.program, [value.shape for value in inputs])


def _input_values(program: ExportedProgram) -> list[torch.Tensor]:
    """The tensors that stand for the inputs, in order."""
    return [node.meta["val"] for node in exported.input_nodes(program)]


def _decompose(state: Preparation) -> None:
    """Write the program in PyTorch's core operators, and in those that are converted whole."""
    try:
        state.program = _decomposed(state.program)
    except RuntimeError as error:
        if (refusal := refusals.mutated_constant(state.where, error)) is not None:
            raise refusal from error
        raise


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """A program of PyTorch's core operators, and of those that are converted whole."""
    table = default_decompositions()
    for operator in KEPT:
        found = [node.meta["val"] for node in exported.calls(program) if node.target is operator]
        if not any(free_symbols(value) for value in found):
            table.pop(operator, None)
    for node in exported.calls(program):
        if node.target in DYNAMIC_RESIZES and free_symbols(node.meta["val"]):
            table.pop(node.target, None)
    with _without_tracebacks():
        core = program.run_decompositions({**table, **DECOMPOSITIONS, **of_libraries(program)})
        is_changed = write_out(core) | rewrite_item_index(core) | compute_as_tensors(core)
        core = core.run_decompositions({**table, **DECOMPOSITIONS}) if is_changed else core
        core = core.run_decompositions(dict(FURTHER)) if any(map(asks_for_further, exported.calls(core))) else core
    _drop_checks(core)
    return core


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """PyTorch logs the traceback of what it then raises, where shapes do not fit each other."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


def _drop_checks(program: ExportedProgram) -> None:
    """Remove what PyTorch checks of values while a program runs: TVM's virtual machine has it in Python alone."""
    for graph in exported.graphs(program):
        for node in reversed(graph.nodes):
            if node.target in CHECKS and not node.users:
                graph.erase_node(node)
        graph.eliminate_dead_code()


def _decompose_unknown(state: Preparation) -> None:
    """Decompose operators that have no converter, if PyTorch knows how and the parts have one."""
    for target in sorted(_unknown_targets(state.program), key=str):
        state.program = _without(state.program, target) or state.program


def _without(program: ExportedProgram, target: torch._ops.OpOverload) -> ExportedProgram | None:
    """A program with one of its operators taken apart; None where that leads to others without an importer."""
    known, table = _unknown_targets(program), get_decompositions([target])
    while table:
        try:
            with _without_tracebacks():
                made = program.run_decompositions(table)
        except AssertionError:  # a decomposition of PyTorch's own writes in place, which its export refuses
            return None
        new = _unknown_targets(made) - known
        if not new:
            return made
        further = get_decompositions(list(new))
        if further.keys() <= table.keys():
            return None
        table |= further
    return None


def _unknown_targets(program: ExportedProgram) -> set[torch._ops.OpOverload]:
    return {node.target for node in _unknown(program) if isinstance(node.target, torch._ops.OpOverload)}


def _unknown(program: ExportedProgram) -> list[fx.Node]:
    known = {*ExportedProgramImporter().convert_map, *CONVERTERS}
    return [node for node in exported.calls(program) if node.target.__name__ not in known]


def _refuse_unsupported(where: str, program: ExportedProgram) -> None:
    unknown = _unknown(program)
    missing = Counter(str(node.target) for node in [*unknown, *filter(asks_for_further, exported.calls(program))])
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
_LOOP_REMEDY = "how often while_loop runs depends on values: write it as a Python loop of a fixed number of steps, with torch.where to end it"


PREPARATIONS: tuple[Step, ...] = (
    _decompose,
    _in_place(exported.leave_out_unread_state),
    _with_source(
        refusals.refuse_mutation
    ),  # decomposed: before it, a program has operators that change tensors in place
    _with_source(refusals.refuse_random_numbers),
    _in_place(choose_by_masks),
    _fix_constant_dims,
    _with_source(refusals.refuse_shapes_of_data),
    _fix_derived_dims,
    _in_place(compute_both_branches),
    _with_source(replace_complex_numbers),
    _in_place(compute_constants),
    _in_place(settle_scales),
    _decompose_unknown,
    _in_place(promote),
    _with_source(_refuse_unsupported),
)
"""The steps from an exported program to one that the importer takes, in order."""


def prepare(where: str, program: ExportedProgram, extents: exported.Extents) -> Preparation:
    """Apply all preparations to a program.

    Raises:
        InputError: the program changes its state, draws random numbers, has shapes that depend on data, or uses
            operators that nothing converts (all of them are listed).
    """
    state = Preparation(where, program, extents)
    for step in PREPARATIONS:
        step(state)
    return state
