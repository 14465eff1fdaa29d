"""``tvmake init``: a commented starter config from a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tvmake.artifact.signature import Signature
    from tvmake.config.starter import StarterInput

OTHER_FORMATS = {
    ".pt": "export it from PyTorch: torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')",
    ".keras": "export it to ONNX (model.export(path, format='onnx')) or to TFLite",
    ".pb": "convert it to ONNX with tf2onnx, or to TFLite",
    ".safetensors": "this holds weights only: name a function that builds the module, package.module:function",
}
OTHER_FORMATS |= {".pth": OTHER_FORMATS[".pt"], ".h5": OTHER_FORMATS[".keras"]}
"""What to do with formats that tvmake does not read."""


def init(
    model: Annotated[
        str, typer.Argument(help="A .onnx, .pt2 or .tflite file, zoo:<name>, or package.module:function.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Config file to write.")] = Path("tvmake.yaml"),
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a commented config for a model, with its inputs as the model declares them.

    The file it writes works as it stands: this machine's CPU, float32, random inputs. Everything else is there as a
    comment to switch on. A .pt2 file is not executed, and a factory is not called.
    """
    from tvmake.artifact.files import write_text
    from tvmake.config.model import ImportOptions
    from tvmake.config.starter import open_extents, starter
    from tvmake.errors import InputError

    if output.exists() and not force:
        raise InputError(str(output), "is there already", "--force replaces it; -o writes another file")
    if not output.parent.is_dir():
        raise InputError(str(output), f"there is no directory '{output.parent}'", "make it first")
    kind = ImportOptions(source=model).source_format()
    if kind is None:
        remedy = OTHER_FORMATS.get(Path(model).suffix.lower())
        expected = "expected a .onnx, .pt2 or .tflite file, zoo:<name>, or package.module:function"
        raise InputError(model, "tvmake cannot tell its format", remedy or expected)
    arguments = _zoo_arguments(model) if kind == "zoo" else {}
    inputs = _inputs(model, kind, arguments)
    write_text(output, starter(model, inputs, kind, arguments))
    typer.echo(f"wrote {output}")
    for entry in inputs:
        typer.echo(f"  input {entry.name}: {entry.dtype} [{', '.join(map(str, entry.shape))}]")
    if guessed := open_extents(inputs):
        typer.echo(
            f"  open extents, fixed under dims: {', '.join(f'{name}={value}' for name, value in guessed.items())}"
        )
    given = "" if output == Path("tvmake.yaml") else f" -c {output}"
    typer.echo(f"next: look through it, then `tvmake check{given}` and `tvmake make{given}`")


def _inputs(source: str, kind: str, arguments: dict[str, object]) -> "list[StarterInput]":
    from tvmake.config.starter import StarterInput

    if kind == "zoo":
        size = arguments["size"]
        return [StarterInput("x", [arguments["batch"], 3, size, size], "float32", (-2.0, 2.0))]
    if kind == "factory":
        _must_exist(source)
        return []
    return [
        StarterInput(spec.name, spec.shape, spec.dtype, spec.range) for spec in _signature(Path(source), kind).inputs
    ]


def _signature(path: Path, kind: str) -> "Signature":
    from tvmake.errors import InputError, MachineError

    if not path.is_file():
        raise InputError(str(path), "is a directory" if path.is_dir() else "no such file", "name the model's file")
    try:
        if kind == "onnx":
            from tvmake.frontend.onnx_inspect import inspect
        elif kind == "pt2":
            from tvmake.frontend.pt2 import inspect
        else:
            from tvmake.frontend.tflite_source import inspect
    except ModuleNotFoundError as error:
        raise MachineError(str(path), f"reading it needs the library '{error.name}'", _install(kind)) from None
    return inspect(path)


def _zoo_arguments(source: str) -> dict[str, object]:
    """The arguments of a zoo network, with their defaults."""
    import difflib

    from tvmake.errors import InputError, MachineError

    try:
        from tvmake.frontend.zoo import NAMES, arguments_model
    except ModuleNotFoundError as error:
        raise MachineError(source, f"the zoo needs the library '{error.name}'", _install("zoo")) from None
    name = source.removeprefix("zoo:")
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean 'zoo:{close[0]}'? " if close else ""
        raise InputError(source, f"the zoo has no network '{name}'", f"{hint}there are: {', '.join(NAMES)}")
    return arguments_model(name)().model_dump()


def _install(kind: str) -> str:
    return f"install it: pip install 'tvmake[{'tflite' if kind == 'tflite' else 'torch'}]'"


def _must_exist(source: str) -> None:
    from tvmake.errors import InputError
    from tvmake.plan.model_files import python_file

    file = Path(python_file(source))
    if not file.is_file():
        raise InputError(
            source,
            f"there is no Python module {file}",
            "it is looked for in the working directory and along PYTHONPATH",
        )
