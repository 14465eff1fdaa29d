"""Convert a ``torch.export`` program to Relax, after repairs of the operators that TVM's importer gets wrong."""

from collections.abc import Sequence
from typing import Any

import torch
import tvm
from torch.export import ExportedProgram

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.artifact.state_names import kept_in_place
from tvmake.errors import InputError
from tvmake.frontend.checkpoint import name_dimensions
from tvmake.frontend.checkpoint_files import DECODER_STATE
from tvmake.frontend.configured_inputs import check_inputs, describe, with_ranges
from tvmake.frontend.equal_sizes import EqualSizes, EqualSizesBuilder
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.lowering.state_indices import bound_indices
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.relax_fixes import correct_operators, drop_unused_params, lift_constants
from tvmake.frontend.size_conditions import bind_sizes, settle_sizes
from tvmake.frontend.states import begin_with, reorder
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch import refusals
from tvmake.frontend.torch.derived_dims import replace_derived_dims
from tvmake.frontend.torch.operators.table import CONVERTERS
from tvmake.frontend.torch.preparations import prepare
from tvmake.frontend.torch.states import StoredState, Written, expose_states, next_values, stored_states
from tvmake.frontend.zoo import models as zoo
from tvmake.ir.bounds import bounds_of, with_bounds

from tvm import relax  # isort: skip
from tvm.relax.frontend import detach_params  # isort: skip
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter  # isort: skip


def read(program: ExportedProgram, options: ImportOptions) -> ImportedModel:
    """Import an exported program into Relax.

    Dynamic dimensions that ``options.inputs`` fixes are bound, those that it names are renamed. Parameters and large
    constants become trailing arguments of ``main``.

    Raises:
        InputError: the program trains, changes what cannot be a state, computes in half precision, or uses operators that the
            importer lacks (all of them are listed); ``options.inputs`` does not fit.
    """
    where = options.source
    refusals.refuse_training(where, program)
    refusals.refuse_unreadable_state(where, program)
    refusals.refuse_half_precision(where, program)
    declared = exported.signature(where, program)
    check_inputs(where, declared, options.inputs)
    entries = options.inputs
    if is_decoder := options.source_format() == "transformers":
        entries = name_dimensions(declared, entries)
    program = replace_derived_dims(program, entries)
    extents = exported.resolve_extents(where, program, entries)
    signature = exported.signature(where, program, extents)
    weights = exported.weights_digest(program)
    prepared = prepare(where, program, extents, kept_in_place(options.state, program.graph_signature.user_inputs))
    states, written = stored_states(where, prepared.program), next_values(prepared.program)
    module, equal_sizes = _import(where, expose_states(prepared.program))
    module, detached = detach_params(module)
    main = module["main"]
    names = [var.name for var in main.params]
    expected = [*(state.spec.relax_name for state in states), *(spec.relax_name for spec in signature.inputs)]
    count = len(expected)
    if names[:count] != expected:
        raise InputError(where, f"TVM reordered the inputs to {names[:count]}", "rename forward()'s arguments")
    params = dict(zip(names[count:], detached.get("main", []), strict=True))
    dims = _binding(prepared.extents)
    module = relax.transform.BindSymbolicVars(dims, "main")(module) if dims else module
    module = settle_sizes(with_bounds(module, signature.bounds), bind_sizes(equal_sizes, dims), where)
    signature = signature.model_copy(update={"bounds": bounds_of(module)})
    module, params = drop_unused_params(module, params)
    module, constants = lift_constants(correct_operators(module))
    module, signature = _place_states(module, signature, states, written)
    _check_outputs(where, module, signature)
    imported = ImportedModel(
        module=module,
        params=params | constants,
        signature=with_ranges(_with_image_range(signature, options), options.inputs),
        notes={
            "format": str(options.source_format()),
            "torch": torch.__version__,
            "operators": _operators(program),
            "weights": weights,
        },
        state=dict(DECODER_STATE) if is_decoder else {},
    )
    return begin_with(imported, {state.spec.relax_name: state.initial for state in states})


def _place_states(
    module: "tvm.IRModule", signature: Signature, states: Sequence[StoredState], written: Sequence[Written]
) -> tuple["tvm.IRModule", Signature]:
    """The module with the states behind the inputs, and their next values behind the outputs, where the program has them first.

    The next value of an input is an output of its name.
    """
    if not written:
        return module, signature
    count, inputs = len(states), {spec.name: spec for spec in signature.inputs}
    taken = [*range(count, count + len(inputs)), *range(count)]
    places = {target: place for place, target in enumerate(written)}
    in_place = [inputs[target.name] for target in written if target.is_input]
    returned = [
        *range(len(written), len(written) + len(signature.outputs)),
        *(places[Written(spec.name, is_input=True)] for spec in in_place),
        *(places[Written(state.spec.name, is_input=False)] for state in states),
    ]
    extended = {
        "outputs": (
            *signature.outputs,
            *(TensorSpec(**spec.model_dump(exclude={"range", "indices"})) for spec in in_place),
        ),
        "states": tuple(state.spec for state in states),
    }
    safe = bound_indices(module, [state.spec.relax_name for state in states])
    return reorder(safe, taken, returned), signature.model_copy(update=extended)


def _with_image_range(signature: Signature, options: ImportOptions) -> Signature:
    if options.source_format() != "zoo":
        return signature
    image = signature.inputs[0].model_copy(update={"range": zoo.INPUT_RANGE})
    return signature.model_copy(update={"inputs": (image,)})


def _operators(program: ExportedProgram) -> list[str]:
    return sorted({str(node.target) for node in exported.calls(program)})


def _import(where: str, program: ExportedProgram) -> tuple["tvm.IRModule", list[EqualSizes]]:
    """The program in Relax, and the sizes that were assumed to be equal."""
    importer = _EqualSizesImporter()
    try:
        module = importer.from_exported_program(
            program,
            keep_params_as_input=True,
            unwrap_unit_return_tuple=True,
            no_bind_return_tuple=False,
            custom_convert_map=CONVERTERS,
        )
    except Exception as error:
        # The importer raises any error of its converters: AssertionError, KeyError, TypeError, InternalError …
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            where,
            f"TVM's PyTorch importer fails: {type(error).__name__}: {line.strip()[:300]}",
            "export the model to ONNX and import that, or rewrite the operator concerned",
        ) from error
    return module, importer.block_builder.equal_sizes


class _EqualSizesImporter(ExportedProgramImporter):
    """TVM's importer, with a block builder that assumes equal sizes if PyTorch knows them to be equal."""

    @property
    def block_builder(self) -> EqualSizesBuilder:
        """The builder of the module."""
        return self._builder

    @block_builder.setter
    def block_builder(self, _builder: Any) -> None:
        self._builder = EqualSizesBuilder()


def _binding(extents: exported.Extents) -> dict[str, Any]:
    """The sizes or new names of dimensions, as Relax expressions by their old names."""
    return {
        str(symbol): tvm.tirx.Var(extent, "int64") if isinstance(extent, str) else tvm.tirx.IntImm("int64", extent)
        for symbol, extent in extents.items()
    }


def _check_outputs(where: str, module: "tvm.IRModule", signature: Signature) -> None:
    """Refuse a module whose outputs differ from PyTorch's in number, dtype or shape."""
    returned = module["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    if len(types) != len(signature.results):
        raise InputError(where, f"TVM returns {len(types)} outputs, PyTorch {len(signature.results)}")
    for spec, ty in zip(signature.results, types, strict=True):
        shape = [int(extent) if isinstance(extent, tvm.tirx.IntImm) else None for extent in ty.shape or ()]
        differs = ty.shape is not None and (
            len(shape) != len(spec.shape)
            or any(
                imported is not None and isinstance(expected, int) and imported != expected
                for imported, expected in zip(shape, spec.shape, strict=True)
            )
        )
        if str(ty.dtype) != spec.dtype or differs:
            raise InputError(
                where,
                f"TVM's importer returns '{spec.name}' as {ty}, PyTorch as {describe(spec)}",
                "export the model to ONNX and import that",
            )
