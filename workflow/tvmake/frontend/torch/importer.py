"""PyTorch: a ``torch.export`` program becomes Relax, once it is known that TVM's importer gets it right."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import tvm
from torch import fx
from torch._decomp import get_decompositions
from torch.export import ExportedProgram, default_decompositions
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree

from tvmake.artifact.signature import Signature
from tvmake.config.model import ImportOptions
from tvmake.errors import InputError
from tvmake.frontend.configured_inputs import check_inputs, describe, with_ranges
from tvmake.frontend.equal_sizes import EqualSizes, EqualSizesBuilder
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.relax_fixes import correct_operators, drop_unused_params, lift_constants
from tvmake.frontend.size_conditions import bind_sizes, settle_sizes
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch import refusals
from tvmake.frontend.torch.branches import compute_both_branches
from tvmake.frontend.torch.constant_dims import resolve_constant_dims
from tvmake.frontend.torch.constants import compute_constants
from tvmake.frontend.torch.derived_dims import with_own_dimensions
from tvmake.frontend.torch.higher_order_ops import write_out
from tvmake.frontend.torch.item_index import rewrite_item_index
from tvmake.frontend.torch.operators.complex import complex_numbers
from tvmake.frontend.torch.operators.converters import CONVERTERS
from tvmake.frontend.torch.operators.decompositions import DECOMPOSITIONS
from tvmake.frontend.torch.operators.masks.selection import choose_by_masks
from tvmake.frontend.torch.operators.matrices.grouped_matmul import of_libraries
from tvmake.frontend.torch.operators.multi_output_ops import FURTHER, asks_for_further
from tvmake.frontend.torch.operators.quantized import settle_scales
from tvmake.frontend.torch.operators.spatial.dynamic_resize import DYNAMIC_RESIZES
from tvmake.frontend.torch.operators.spatial.resize import KEPT
from tvmake.frontend.torch.promotion import promote
from tvmake.frontend.torch.scalars import compute_as_tensors
from tvmake.frontend.zoo import models as zoo
from tvmake.ir.bounds import bounds_of, with_bounds

from tvm import relax  # isort: skip
from tvm.relax.frontend import detach_params  # isort: skip
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter  # isort: skip

CHECKS = (
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
)


def read(program: ExportedProgram, options: ImportOptions) -> ImportedModel:
    """Import an exported program into Relax.

    Dynamic extents that ``options.inputs`` gives are bound, those it names are renamed. Parameters and large
    constants become trailing arguments of ``main``.

    Raises:
        InputError: the program trains, changes its state, computes in half precision, or uses operators that the
            importer lacks (all of them are listed); ``options.inputs`` does not fit.
    """
    where = options.source
    refusals.refuse_training(where, program)
    refusals.refuse_unreadable_state(where, program)
    refusals.refuse_half_precision(where, program)
    check_inputs(where, exported.signature(where, program), options.inputs)
    program = with_own_dimensions(program, options.inputs)
    extents = exported.settle_extents(where, program, options.inputs)
    signature = exported.signature(where, program, extents)
    weights = exported.weights_digest(program)
    try:
        core = _decomposed(program)
    except RuntimeError as error:
        if (refusal := refusals.mutated_constant(where, error)) is not None:
            raise refusal from error
        raise
    exported.leave_out_unread_state(core)
    refusals.refuse_mutation(where, core)  # as exported it still has in-place operators; here they are spelled out
    refusals.refuse_random_numbers(where, core)
    choose_by_masks(core)
    core = _with_constant_extents(core)
    refusals.refuse_shapes_of_data(where, core)
    resolvable = _make_resolvable(where, core, extents)
    if resolvable is not core:
        core, extents = resolvable, {}
    compute_both_branches(core)
    complex_numbers.resolve(core, where)
    compute_constants(core)
    settle_scales(core)
    core = _decompose_unknown(core)
    promote(core)
    _refuse_unsupported(where, core)
    module, equal_sizes = _import(where, core)
    module, detached = detach_params(module)
    main = module["main"]
    names = [var.name for var in main.params]
    count = len(signature.inputs)
    if names[:count] != [spec.relax_name for spec in signature.inputs]:
        raise InputError(where, f"TVM reordered the inputs to {names[:count]}", "rename forward()'s arguments")
    params = dict(zip(names[count:], detached.get("main", []), strict=True))
    sizes = bind_sizes(equal_sizes, _binding(extents))
    module = settle_sizes(with_bounds(_settle(module, extents), signature.bounds), sizes, where)
    signature = signature.model_copy(update={"bounds": bounds_of(module)})
    module, params = drop_unused_params(module, params)
    module, constants = lift_constants(correct_operators(module))
    _check_outputs(where, module, signature)
    return ImportedModel(
        module=module,
        params=params | constants,
        signature=with_ranges(_with_image_range(signature, options), options.inputs),
        notes={
            "format": str(options.source_format()),
            "torch": torch.__version__,
            "operators": _operators(program),
            "weights": weights,
        },
    )


def _with_image_range(signature: Signature, options: ImportOptions) -> Signature:
    if options.source_format() != "zoo":
        return signature
    image = signature.inputs[0].model_copy(update={"range": zoo.INPUT_RANGE})
    return signature.model_copy(update={"inputs": (image,)})


def _operators(program: ExportedProgram) -> list[str]:
    return sorted({str(node.target) for node in exported.calls(program)})


def _make_resolvable(where: str, program: ExportedProgram, extents: exported.Extents) -> ExportedProgram:
    """Fix extents that Relax could not resolve: it learns a symbol's value only where the symbol alone is an extent.

    A program whose input has the extent ``2*s0``, with ``s0`` nowhere alone, is exported again with the shapes given.
    """
    inputs = _input_values(program)
    expressions = [extent.node.expr for value in inputs for extent in value.shape if isinstance(extent, torch.SymInt)]
    symbols = {symbol for expression in expressions for symbol in expression.free_symbols}
    alone = {expression for expression in expressions if expression.is_Symbol}
    if symbols <= alone:
        return program
    fixed = {symbol for symbol, extent in extents.items() if isinstance(extent, int)}
    if symbols - fixed:
        derived = next(expression for expression in expressions if not expression.is_Symbol)
        problem = f"TVM cannot resolve the dynamic extent {derived}, where {symbols - alone} is no extent of its own"
        raise InputError(where, problem.replace("{", "").replace("}", ""), "give all inputs a fixed `shape`")
    return _exported_again(program, [spec.shape for spec in exported.signature(where, program, extents).inputs])


def _exported_again(program: ExportedProgram, shapes: Sequence[Sequence[Any]]) -> ExportedProgram:
    example = [
        torch.zeros(shape, dtype=value.dtype) for shape, value in zip(shapes, _input_values(program), strict=True)
    ]
    args, kwargs = pytree.tree_unflatten(example, program.call_spec.in_spec)
    return _decomposed(torch.export.export(program.module(), args, kwargs))


def _with_constant_extents(program: ExportedProgram) -> ExportedProgram:
    """A program whose inputs have fixed shapes, with extents that depend on parameters alone settled."""
    inputs = _input_values(program)
    if any(map(free_symbols, inputs)) or not resolve_constant_dims(program):
        return program
    return _exported_again(program, [value.shape for value in inputs])


def _input_values(program: ExportedProgram) -> list[torch.Tensor]:
    """The tensors that stand for the inputs, in order."""
    return [node.meta["val"] for node in exported.input_nodes(program)]


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """A program of PyTorch's core operators, and of those that are better as they are."""
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


def _decompose_unknown(program: ExportedProgram) -> ExportedProgram:
    """Take operators that have no importer apart, where PyTorch knows how and the parts have one."""
    for target in sorted(_unknown_targets(program), key=str):
        program = _without(program, target) or program
    return program


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
        raise InputError(
            where,
            f"{len(missing)} {plural} no importer in TVM {tvm.__version__}: {listing}",
            _LOOP_REMEDY if "while_loop" in missing else _REMEDY,
        )


_REMEDY = "rewrite those parts of forward() with other operators, or export the model to ONNX and import that"
_LOOP_REMEDY = "how often while_loop runs depends on values: write it as a Python loop of a fixed number of steps, with torch.where to end it"


def _import(where: str, program: ExportedProgram) -> tuple["tvm.IRModule", list[EqualSizes]]:
    """The program in Relax, and the sizes that were taken for equal."""
    importer = _Importer()
    try:
        module = importer.from_exported_program(
            program,
            keep_params_as_input=True,
            unwrap_unit_return_tuple=True,
            no_bind_return_tuple=False,
            custom_convert_map=CONVERTERS,
        )
    except Exception as error:
        # The importer raises whatever its converters run into: AssertionError, KeyError, TypeError, InternalError …
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            where,
            f"TVM's PyTorch importer fails: {type(error).__name__}: {line.strip()[:300]}",
            "export the model to ONNX and import that, or rewrite the operator concerned",
        ) from error
    return module, importer.block_builder.equal_sizes


class _Importer(ExportedProgramImporter):
    """TVM's importer, with a block builder that takes sizes for equal which PyTorch knows to be."""

    @property
    def block_builder(self) -> EqualSizesBuilder:
        """What the module is built by."""
        return self._builder

    @block_builder.setter
    def block_builder(self, _builder: Any) -> None:
        self._builder = EqualSizesBuilder()


def _settle(module: "tvm.IRModule", extents: exported.Extents) -> "tvm.IRModule":
    if not extents:
        return module
    return relax.transform.BindSymbolicVars(_binding(extents), "main")(module)


def _binding(extents: exported.Extents) -> dict[str, Any]:
    """What becomes of dimensions in Relax, by their names."""
    return {
        str(symbol): tvm.tirx.Var(extent, "int64") if isinstance(extent, str) else tvm.tirx.IntImm("int64", extent)
        for symbol, extent in extents.items()
    }


def _check_outputs(where: str, module: "tvm.IRModule", signature: Signature) -> None:
    """The importer must return what PyTorch says it returns."""
    returned = module["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    if len(types) != len(signature.outputs):
        raise InputError(where, f"TVM returns {len(types)} outputs, PyTorch {len(signature.outputs)}")
    for spec, ty in zip(signature.outputs, types, strict=True):
        shape = [int(extent) if isinstance(extent, tvm.tirx.IntImm) else None for extent in ty.shape or ()]
        differs = ty.shape is not None and (
            len(shape) != len(spec.shape)
            or any(
                ours is not None and isinstance(theirs, int) and ours != theirs
                for ours, theirs in zip(shape, spec.shape, strict=True)
            )
        )
        if str(ty.dtype) != spec.dtype or differs:
            raise InputError(
                where,
                f"TVM's importer returns '{spec.name}' as {ty}, PyTorch as {describe(spec)}",
                "export the model to ONNX and import that",
            )
