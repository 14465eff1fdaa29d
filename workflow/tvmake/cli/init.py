"""``tvmake init``: write a commented config for a model, or an Android app for a package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.terminal import output_file

if TYPE_CHECKING:
    from tvmake.artifact.signature import Signature
    from tvmake.frontend.checkpoint import DecoderConfig
    from tvmake.frontend.options import ImportOptions


def init(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="A .onnx, .pt2, .tflite or .mlir file, a language model's directory, zoo:<name>, or package.module:function. Several are the functions of one package."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", parser=output_file, help="Config file to write.")] = Path("tvmake.yaml"),
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it exists.")] = False,
    android: Annotated[Path | None, typer.Option("--android", metavar="DIR", help="Write an Android project with a package instead of a config.")] = None,
    package: Annotated[Path | None, typer.Option("--package", metavar="FILE", help="The package.tar for --android.")] = None,
    labels: Annotated[Path | None, typer.Option("--labels", metavar="FILE", help="Names of the classes for --android, one per line.")] = None,
    images: Annotated[list[Path] | None, typer.Option("--image", metavar="FILE", help="An image for --android; repeatable. [default: a generated one]")] = None,
    preprocess: Annotated[
        list[str] | None,
        typer.Option("--preprocess", "-p", metavar="KEY=VALUE", help="How the app converts an image to the input: keys of `dataset.preprocess`, e.g. resize=256 crop=224."),
    ] = None,
    runtime: Annotated[Path | None, typer.Option("--runtime", metavar="DIR", help="Native libraries for --android. [default: the output of `tvmake runtime build aarch64-linux-android`]")] = None,
) -> None:  # fmt: skip
    """Write a commented config for a model, or an Android app for a package.

    Several models become the functions of one package, which are named after their files.

    The config works unchanged, with the model's inputs, this machine's CPU, float32 and random data. All other keys are
    included as comments. A .pt2 file is not executed, and a factory is not called.

    With --android: write a project for Android Studio or Gradle, with a library for Java and Kotlin and an app that shows an
    image and the five classes with the highest scores.
    """
    from tvmake.errors import UsageError

    others = {
        "--package": package,
        "--labels": labels,
        "--image": images,
        "--preprocess": preprocess,
        "--runtime": runtime,
    }
    if android is not None:
        if models:
            raise UsageError(
                "init --android", f"takes a package, not a model ('{models[0]}')", "name it with --package"
            )
        if package is None:
            raise UsageError("init --android", "a package is missing", "--package FILE; `tvmake compile -t` builds one")
        _write_app(android, package, labels, images or [], preprocess, runtime)
        return
    if option := next((name for name, value in others.items() if value), None):
        raise UsageError(f"init {option}", "needs --android DIR")
    if not models:
        raise UsageError("init", "a model is missing", "name a file or zoo:<name>; or --android DIR for an app")
    if len(models) == 1:
        _write_config(models[0], output, force)
    else:
        _write_function_config(models, output, force)


def _write_app(
    directory: Path,
    package: Path,
    labels: Path | None,
    images: list[Path],
    settings: list[str] | None,
    runtime: Path | None,
) -> None:
    from tvmake.cli.packages.preprocessing import preprocessing
    from tvmake.running.android import write_app

    app = write_app(directory, package, runtime, labels, images, preprocessing(settings))
    typer.echo(
        f"wrote {directory}: an app for {app.abi} with {app.manifest.model}/{app.manifest.precision}/{app.manifest.target_name}"
    )
    typer.echo(f"  libraries: {', '.join(app.libraries)}")
    if app.is_resized:
        size = "×".join(map(str, app.preprocessing.resize)) if isinstance(app.preprocessing.resize, tuple) else ""
        typer.echo(f"  images are resized to {size}; --preprocess changes this")
    typer.echo(f"next: open {directory} in Android Studio, or `gradle -p {directory} :app:installDebug`")


def _import_options(model: str) -> ImportOptions:
    """The import options of a model, as in a config.

    Raises:
        InputError: the model is invalid in a config.
    """
    from pydantic import ValidationError

    from tvmake.config.reading.messages import message
    from tvmake.config.root import ModelConfig
    from tvmake.errors import InputError

    try:
        return ModelConfig(source=model).import_options()
    except ValidationError as error:
        details = error.errors(include_url=False)[:1]
        raise InputError(model, *message(details, ("models", "*", "source"))) from None


def _settle_dimensions(options: ImportOptions, kind: str, declared: Signature) -> Signature:
    """The inputs with the dimensions of a package: the import merges some and bounds others.

    A model that cannot be imported keeps its declared dimensions; `tvmake check` and `tvmake make` report the reason.
    """
    from tvmake.errors import TvmakeError
    from tvmake.frontend.trust import RUNS_CODE
    from tvmake.stages.model.import_model import imported_signature

    if kind in RUNS_CODE or not declared.dynamic_dimensions:
        return declared
    try:
        return imported_signature(options)
    except TvmakeError:
        return declared


def _decoder_file(model: str) -> tuple[str, DecoderConfig | None]:
    """The file to import of a directory with exported decoders, and what its config.json says; other models unchanged."""
    from tvmake.cli.exported_decoder import decoder_file
    from tvmake.frontend.checkpoint import read_config

    file = decoder_file(Path(model))
    return (model, None) if file is None else (str(file), read_config(Path(model)))


def _write_config(model: str, output: Path, force: bool) -> None:
    from tvmake.artifact.signature import Signature
    from tvmake.cli.dimensions import input_lines
    from tvmake.cli.exported_decoder import exported_decoder
    from tvmake.config.documents.starter import StarterDecoder, StarterInput, starter
    from tvmake.frontend.checkpoint import PAST, SEQUENCE, read_config
    from tvmake.frontend.external_data import external_files
    from tvmake.frontend.inspect import inspect_source
    from tvmake.frontend.model_files import model_files
    from tvmake.frontend.suggested_states import suggest_states
    from tvmake.process.output import printable
    from tvmake.storage.files import write_text

    _check_output(output, force)
    model, decoder_config = _decoder_file(model)
    options = _import_options(model)
    declared = inspect_source(options, lists_files=False)
    files = [file for file in external_files(options) if file not in model_files(options)]
    stated = Signature(inputs=tuple(declared.inputs), outputs=tuple(declared.outputs), bounds=declared.bounds)
    is_checkpoint = declared.format == "transformers"
    signature = stated if is_checkpoint else _settle_dimensions(options, declared.format, stated)
    inputs = [StarterInput(spec.name, spec.shape, spec.dtype, spec.range) for spec in signature.inputs]
    state = suggest_states(signature)
    decoder = None
    if is_checkpoint:
        decoder = StarterDecoder(SEQUENCE, PAST, read_config(Path(model)).context)
    elif decoder_config is not None:
        decoder = exported_decoder(model, stated, state, decoder_config)
    text = starter(model, inputs, declared.format, declared.arguments, signature.bounds, files, state, decoder)
    write_text(output, text)
    typer.echo(printable(f"wrote {output}"))
    for line in input_lines(signature):
        typer.echo(line)
    _print_next(output)


def _check_output(output: Path, force: bool) -> None:
    from tvmake.errors import InputError
    from tvmake.storage.destinations import check_destination

    check_destination(output, "config")
    if output.exists() and not force:
        raise InputError(str(output), "already exists", "--force replaces it; -o writes another file")


def _print_next(output: Path) -> None:
    from tvmake.process.output import argument, printable

    option = "" if output == Path("tvmake.yaml") else f" -c {argument(output)}"
    typer.echo(printable(f"next: review it, then run `tvmake check{option}` and `tvmake make{option}`"))


def _write_function_config(models: list[str], output: Path, force: bool) -> None:
    """Write a config for one model whose functions come from several files."""
    from tvmake.artifact.signature import Signature
    from tvmake.cli.dimensions import input_lines
    from tvmake.config.documents.function_starter import StarterFunction, function_starter
    from tvmake.config.documents.starter import StarterInput, model_name
    from tvmake.frontend.external_data import external_files
    from tvmake.frontend.inspect import inspect_source
    from tvmake.frontend.model_files import model_files
    from tvmake.frontend.suggested_links import suggest_links, suggest_separate_states
    from tvmake.frontend.suggested_states import suggest_states
    from tvmake.process.output import printable
    from tvmake.storage.files import write_text

    _check_output(output, force)
    functions: dict[str, StarterFunction] = {}
    signatures: dict[str, Signature] = {}
    for name, model in _function_names(models).items():
        options = _import_options(model)
        declared = inspect_source(options, lists_files=False)
        files = [file for file in external_files(options) if file not in model_files(options)]
        stated = Signature(inputs=tuple(declared.inputs), outputs=tuple(declared.outputs), bounds=declared.bounds)
        signatures[name] = _settle_dimensions(options, declared.format, stated)
        inputs = [StarterInput(spec.name, spec.shape, spec.dtype, spec.range) for spec in signatures[name].inputs]
        state = suggest_states(signatures[name])
        functions[name] = StarterFunction(
            model, declared.format, inputs, signatures[name].bounds, files, state, declared.arguments
        )
    states = {name: function.state for name, function in functions.items()}
    links, separate = suggest_links(signatures, states), suggest_separate_states(signatures, states)
    name = model_name(Path(models[0]).absolute().parent.name or "model")
    write_text(output, function_starter(name, functions, links, separate))
    typer.echo(printable(f"wrote {output}"))
    for name, signature in signatures.items():
        typer.echo(f"function {name}:")
        for line in input_lines(signature):
            typer.echo(line)
    _print_next(output)


def _function_names(models: list[str]) -> dict[str, str]:
    """The sources by the functions' names, those of the files.

    Raises:
        InputError: there are too many, or one is a directory.
    """
    import re

    from tvmake.artifact.functions import MOST_FUNCTIONS
    from tvmake.artifact.weights.names import unused_name
    from tvmake.config.documents.starter import model_name
    from tvmake.errors import InputError

    if len(models) > MOST_FUNCTIONS:
        problem = f"{len(models)} models, and a package has at most {MOST_FUNCTIONS} functions"
        raise InputError("init", problem, "name fewer of them")
    names: dict[str, str] = {}
    used: set[str] = set()
    for model in models:
        if Path(model).is_dir():
            raise InputError(model, "is a directory, and the functions of a package are files", "name the files")
        name = re.sub(r"[^a-z0-9]+", "_", model_name(model).lower()).strip("_").removesuffix("_model")
        names[unused_name(name if name[:1].isalpha() else f"f_{name}", used)] = model
    return names
