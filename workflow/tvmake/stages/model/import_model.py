"""Import: convert a trained model to Relax, with separate parameters and a signature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.frontend.options import ImportOptions
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.user_files import user_files

if TYPE_CHECKING:
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.source import SourceRecord
    from tvmake.errors import InputError
    from tvmake.frontend.imported import ImportedModel
    from tvmake.stages.context import JobContext


def import_model(request: ImportOptions, module: Path, params: Path, signature: Path, source: Path) -> SourceRecord:
    """Read a model and write ``module`` (Relax JSON), ``params``, ``signature`` and ``source`` (what is returned).

    Raises:
        InputError: the model cannot be imported, or its files change meanwhile.
        MachineError: a library for its format is missing.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.source import SourceRecord
    from tvmake.errors import InputError
    from tvmake.frontend.model_files import model_files
    from tvmake.storage.files import digest_file
    from tvmake.storage.plain_files import unchanged

    kind = request.source_format()
    if kind is None:
        raise InputError(request.source, "cannot tell this model's format", "set models.<name>.format")
    names = [name for name in model_files(request) if Path(name).is_file()]
    with unchanged(Path(name) for name in names):
        files = {name: digest_file(Path(name)) for name in names}
        imported = _read(kind, request)
        if names != [name for name in model_files(request) if Path(name).is_file()]:
            raise InputError(request.source, "files beside it were added or removed while it was read", "run again")
    # TVM is loaded by now, in the order that the frontend needs.
    from tvmake.artifact.empty_tensors import bind_empty
    from tvmake.artifact.module_files import save_module
    from tvmake.artifact.weights.tensors import save_params
    from tvmake.quantize.source.rounding import note_quantized_source

    network, weights = bind_empty(imported.module, imported.params)
    network = note_quantized_source(network, len(imported.signature.arguments), imported.framework_rounds)
    save_params(weights, params)
    save_module(network, module)
    record = SourceRecord(source=request.source, format=kind, files=files, notes=imported.notes)
    stage_json.save(record, source)
    stage_json.save(imported.signature, signature)
    return record


def _read(kind: str, request: ImportOptions) -> ImportedModel:
    from tvmake.errors import InputError

    try:
        return _import(kind, request)
    except InputError:
        if (error := _size_out_of_bounds(kind, request)) is not None:
            raise error from None
        raise


def _size_out_of_bounds(kind: str, request: ImportOptions) -> InputError | None:
    """The error for a size in ``inputs`` that is too small for the network, or too large; None if all are within its bounds.

    The bounds are those of the network with dynamic dimensions: with fixed ones, the import fails at some operator.
    """
    from tvmake.artifact.extents import describe_bounds, has_size
    from tvmake.errors import InputError, TvmakeError
    from tvmake.frontend.trust import RUNS_CODE

    shapes = {name: spec.shape for name, spec in request.inputs.items() if spec.shape is not None}
    if not shapes or kind in RUNS_CODE:
        return None
    entries = {name: spec.model_copy(update={"shape": None}) for name, spec in request.inputs.items()}
    try:
        signature = _import(kind, request.model_copy(update={"inputs": entries})).signature
    except TvmakeError:
        return None
    for spec in signature.inputs:
        for axis, (name, size) in enumerate(zip(spec.shape, shapes.get(spec.name, ()), strict=False)):
            bounds = signature.bounds.get(str(name))
            if isinstance(size, int) and bounds is not None and not has_size(bounds, size):
                problem = (
                    f"axis {axis} of input '{spec.name}' is {size}, and the network takes {describe_bounds(bounds)}"
                )
                return InputError(
                    request.source, problem, f"give it another size: `inputs: {{{spec.name}: {{shape: […]}}}}`"
                )
    return None


def _import(kind: str, request: ImportOptions) -> ImportedModel:
    import importlib

    from tvmake.frontend.fixed_inputs import bind_values, fixed_inputs
    from tvmake.frontend.foreign import foreign
    from tvmake.frontend.formats import FRONTENDS, unloaded_library

    fixed = fixed_inputs(request)  # forks a process, before the frontend starts threads
    try:
        frontend, *loader = (importlib.import_module(name) for name in FRONTENDS[kind])
    except (ImportError, OSError) as error:
        raise unloaded_library(request.source, kind, error) from error
    with foreign(request):
        source = loader[0].load_program(request.source, request) if loader else Path(request.source)
        imported: ImportedModel = frontend.read(source, request)
    from tvmake.frontend.smallest_sizes import bound_sizes  # imports TVM, after the frontend
    from tvmake.frontend.states import declare_states

    whole = bound_sizes(bind_values(imported, fixed), request.source)
    return declare_states(whole, whole.state | request.state, request.source)


def imported_signature(request: ImportOptions) -> Signature:
    """The signature of a model after its import: dimensions that are always equal have one name, and bounds are known.

    Raises:
        InputError: the model cannot be imported.
        MachineError: a library for its format is missing.
    """
    from tvmake.artifact.signature import Signature
    from tvmake.process.limits import isolated

    kind = str(request.source_format())

    def read() -> bytes:
        return _read(kind, request).signature.model_dump_json().encode()

    return Signature.model_validate_json(isolated(read, request.source, "importing it"))


def import_request(job: JobContext) -> ImportOptions:
    """The model's source and the options of its inputs."""
    return job.import_options


def frontend_modules(request: ImportOptions) -> tuple[str, ...]:
    """The modules that import models of the request's format."""
    from tvmake.frontend.formats import FRONTENDS, modules_by_options

    return (*FRONTENDS.get(str(request.source_format()), ()), *modules_by_options(request))


def _model_files(request: ImportOptions) -> dict[str, Path]:
    from tvmake.frontend.model_files import model_files

    # Their names are in source.json, so they affect the result.
    return {f"model file {file}": Path(file) for file in model_files(request)}


def _refusal(request: ImportOptions) -> str | None:
    from tvmake.frontend.trust import RUNS_CODE

    kind = request.source_format()
    if kind in RUNS_CODE or request.trusted:
        return f"importing {request.source} runs the model's own code, which may read any file"
    return f"{request.source} has an unknown format" if kind is None else None


STAGE = Stage(
    name="import",
    summary="Convert a trained model to Relax, with separate parameters.",
    function=import_model,
    inputs=(Input(files=lambda job: job.model_files),),
    outputs=(
        Output("model.json", paths.MODEL, "module", "Relax module to write (JSON)."),
        Output("model.params", paths.MODEL, "params", "Parameters to write."),
        Output("signature.json", paths.MODEL, "signature", "Signature to write (JSON).", has_parts=True),
        Output("source.json", paths.MODEL, "source", "Record of the source to write (JSON).", has_parts=True),
    ),
    logs=(Log("{model}/import.log"),),
    request_model=ImportOptions,
    request=import_request,
    subject=lambda arguments: arguments["request"].source,
    report=lambda record: [f"warning: source: {text}" for text in record.notes.get("slow", ())],
    code=frontend_modules,
    reads=lambda arguments: user_files(model=arguments["request"]),
    rules=("import_model",),
    is_hermetic=True,
    recipe=Recipe(refusal=_refusal, files=_model_files),
    memory_mb=1500,
    server="model",
)
