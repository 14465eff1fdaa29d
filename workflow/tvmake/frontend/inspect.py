"""Read a source's declared inputs and outputs without running its code; a starter config is written from them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tvmake.artifact.signature import Bounds, Signature, TensorSpec
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.configured_inputs import check_inputs, with_extents
from tvmake.frontend.file_kinds import format_remedy
from tvmake.frontend.foreign import foreign
from tvmake.frontend.formats import unloaded_library
from tvmake.frontend.model_files import python_file
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.source_file import COPY, check_torchscript, open_source
from tvmake.process.limits import isolated
from tvmake.process.user_code import check_function
from tvmake.storage.plain_files import special_kind


@dataclass(frozen=True)
class Declared:
    """A source's declared inputs and outputs."""

    format: str
    inputs: Sequence[TensorSpec] = ()
    """Empty for a factory, and a Keras or TorchScript model: they would have to run."""
    outputs: Sequence[TensorSpec] = ()
    """Also empty for a network of the zoo."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """A zoo network's arguments, with their defaults."""
    bounds: dict[str, Bounds] = field(default_factory=dict)
    """Bounds of dynamic dimensions that the source states."""


def configured(declared: Declared, options: ImportOptions) -> Signature | None:
    """The declared signature of a model with the config's shapes.

    Returns:
        None for a source that would have to be run.

    Raises:
        InputError: the config's `inputs:` contradict the model's.
    """
    if not declared.inputs:
        return None
    signature = Signature(inputs=tuple(declared.inputs), outputs=tuple(declared.outputs), bounds=declared.bounds)
    check_inputs(options.source, signature, options.inputs)
    return with_extents(signature, options.inputs)


def inspect_source(options: ImportOptions, *, lists_files: bool = True) -> Declared:
    """The format and inputs of a model file, ``zoo:<name>`` or ``package.module:function``.

    Args:
        options: from the config.
        lists_files: whether ``options.files`` must list the further files that the model reads.

    Raises:
        InputError: the source is missing, damaged, or in a format that tvmake does not read.
        MachineError: a library that reads the format is not installed.
    """
    source, kind = options.source, options.source_format()
    if kind is None:
        is_missing = not Path(source).exists()
        raise InputError(
            source, "no such file" if is_missing else "tvmake cannot tell its format", format_remedy(source)
        )
    if kind == "zoo":
        return _inspect_zoo(options)
    if kind in ("factory", "relax"):
        _check_module(source)
        return Declared(kind)
    path = Path(source)
    if kind != "transformers" and not path.is_file():
        found = "a directory" if path.is_dir() else special_kind(path)
        raise InputError(source, f"is {found}, not a file" if found else "no such file", "name the model's file")
    if kind == "keras":  # only Keras can read its inputs, and loading it needs trust
        with open_source(path, path.suffix.lower(), COPY):
            return Declared(kind)
    if kind == "torchscript":  # it stores no shapes
        check_torchscript(path)
        return Declared(kind)
    try:
        signature = Signature.model_validate_json(isolated(lambda: _inspect_file(kind, options, lists_files), source))
    except InputError as error:
        implied = options.implied_format()
        if implied in (None, kind):
            raise
        remedy = f"leave `format: {kind}` out, if it is what its name says ({implied})"
        raise InputError(error.where, error.problem, remedy) from error
    return Declared(kind, signature.inputs, signature.outputs, bounds=signature.bounds)


def inspect_sources(several: Iterable[ImportOptions]) -> Callable[[ImportOptions], Declared]:
    """:func:`inspect_source` for several models; each distinct source is read once.

    If several are ONNX files, this process loads onnx for the processes that read them: that takes ten times as long as reading a
    small file.
    """
    known: dict[str, Declared | TvmakeError] = {}

    def key(options: ImportOptions) -> str:
        return options.model_copy(update={"inputs": {}}).model_dump_json()

    distinct = {key(options): options.source_format() for options in several}
    if list(distinct.values()).count("onnx") > 1:
        with suppress(ImportError, OSError):  # the process that reads a file reports it
            import_module("tvmake.frontend.onnx.inputs")

    def inspect(options: ImportOptions) -> Declared:
        name = key(options)
        if name not in known:
            try:
                known[name] = inspect_source(options)
            except TvmakeError as error:
                known[name] = error
        if isinstance(result := known[name], TvmakeError):
            raise result
        return result

    return inspect


def _inspect_file(kind: str, options: ImportOptions, lists_files: bool) -> bytes:
    inspect: Callable[[Path], Signature]
    try:
        if kind == "onnx":
            from tvmake.frontend.onnx.inputs import inspect as inspect_onnx

            inspect = partial(inspect_onnx, files=options.files if lists_files else None, opset=options.opset)
        elif kind == "pt2":
            from tvmake.frontend.torch.pt2.archive import inspect
        elif kind == "transformers":
            from tvmake.frontend.checkpoint import inspect
        elif kind == "stablehlo":
            from tvmake.frontend.stablehlo.source import inspect
        else:
            from tvmake.frontend.tflite.source import inspect
    except (ImportError, OSError) as error:
        raise unloaded_library(options.source, kind, error) from None
    with foreign(options):
        return inspect(Path(options.source)).model_dump_json().encode()


def _inspect_zoo(options: ImportOptions) -> Declared:
    try:
        from tvmake.frontend.zoo.models import INPUT_RANGE, checked_arguments
    except (ImportError, OSError) as error:
        raise unloaded_library(options.source, "zoo", error) from None
    arguments = checked_arguments(options.source, options)
    shape = (arguments.batch, 3, arguments.size, arguments.size)
    image = TensorSpec(name="x", relax_name="x", shape=shape, dtype="float32", range=INPUT_RANGE)
    return Declared("zoo", (image,), arguments=arguments.model_dump())


def _check_module(source: str) -> None:
    file = Path(python_file(source))
    if not file.is_file():
        raise InputError(
            source,
            f"there is no Python module {file}",
            "it is looked for in the working directory and along PYTHONPATH",
        )
    check_function(source, file, source)
