"""``tvmake init``: a commented starter config from a model."""

from pathlib import Path
from typing import Annotated

import typer


def init(
    model: Annotated[
        str, typer.Argument(help="A .onnx, .pt2, .tflite or .mlir file, zoo:<name>, or package.module:function.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Config file to write.")] = Path("tvmake.yaml"),
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a commented config for a model, with its inputs as the model declares them.

    The file it writes works as it stands: this machine's CPU, float32, random inputs. Everything else is there as a
    comment to switch on. A .pt2 file is not executed, and a factory is not called.
    """
    from tvmake.config.documents.starter import StarterInput, open_extents, starter
    from tvmake.config.model import ImportOptions
    from tvmake.errors import InputError
    from tvmake.frontend.inspect import inspect_source
    from tvmake.storage.files import write_text

    if output.exists() and not force:
        raise InputError(str(output), "is there already", "--force replaces it; -o writes another file")
    if not output.parent.is_dir():
        raise InputError(str(output), f"there is no directory '{output.parent}'", "make it first")
    declared = inspect_source(ImportOptions(source=model))
    inputs = [StarterInput(spec.name, spec.shape, spec.dtype, spec.range) for spec in declared.inputs]
    write_text(output, starter(model, inputs, declared.format, declared.arguments))
    typer.echo(f"wrote {output}")
    for entry in inputs:
        typer.echo(f"  input {entry.name}: {entry.dtype} [{', '.join(map(str, entry.shape))}]")
    if guessed := open_extents(inputs):
        typer.echo(
            f"  open extents, fixed under dims: {', '.join(f'{name}={value}' for name, value in guessed.items())}"
        )
    given = "" if output == Path("tvmake.yaml") else f" -c {output}"
    typer.echo(f"next: look through it, then `tvmake check{given}` and `tvmake make{given}`")
