"""``tvmake compile``: one package of one model, without a config."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tvmake.cli.configs import Settings

WORK = Path(".tvmake")
"""Where such runs are made, beside what users see: a directory each."""

NATIVE = "native"


def compile_model(
    model: Annotated[str, typer.Argument(help="A .onnx, .pt2, .tflite, .keras or .h5 file, or zoo:<name>.")],
    target: Annotated[
        str, typer.Option("--target", "-t", help="A name of `tvmake targets`, or a target as TVM spells it; `native` is this machine's CPU.")
    ] = NATIVE,
    precision: Annotated[str, typer.Option("--precision", help="float32, float16 or float16_acc32.")] = "float32",
    tune: Annotated[int, typer.Option("--tune", min=0, metavar="TRIALS", help="Search for fast kernels, with so many measurements.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The package to write. [default: MODEL.tar]")] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--input-shape", metavar="INPUT=1,3,224,224", help="Extents of an input that the model leaves open; repeatable."),
    ] = None,
    settings: Settings = None,
    cores: Annotated[str | None, typer.Option("--cores", "-j", help="Cores to use. [default: all]")] = None,
) -> None:  # fmt: skip
    """Compile one model for one target to one package, without a config.

    What was made before is not made again. The run lies in .tvmake/, with a config to go on from (`tvmake make -d`); tuning
    records go to the store that all runs share.
    """
    import shutil

    import yaml

    from tvmake.cli import run
    from tvmake.cli.configs import overlay
    from tvmake.errors import InputError
    from tvmake.process.output import printable
    from tvmake.storage.files import atomic_path, write_text

    source = model if model.startswith("zoo:") else str(Path(model).resolve())
    if not model.startswith("zoo:") and not Path(model).is_file():
        raise InputError(
            model, "no such file", "give a model's file, or zoo:<name>; a Python function needs a config: `tvmake init`"
        )
    name = _slug(Path(model.removeprefix("zoo:")).stem)
    of_target = _slug(target)
    wanted = output or Path(f"{name}.tar")
    if not wanted.parent.is_dir():
        raise InputError(str(wanted), f"there is no directory '{wanted.parent}'", "make it first")
    config: dict[str, Any] = {
        "models": {
            name: {"source": source, "inputs": {key: {"shape": shape} for key, shape in map(_shape, shapes or ())}}
        },
        "precisions": [precision],
        "targets": {of_target: {"kind": "llvm", "mcpu": NATIVE} if target == NATIVE else target},
        "tuning": {"trials": tune},
    }
    # In full, because the run changes into it.
    directory, package = (WORK / f"{name}-{of_target}").resolve(), wanted.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / "tvmake.yaml", yaml.safe_dump(config, sort_keys=False))
    overlay(settings)  # what is wrong with an option is said before anything else
    made = f"results/{name}/{precision}/{of_target}/package.tar"
    options = [
        *(["--cores", cores] if cores else []),
        *(word for setting in settings or () for word in ("--set", setting)),
    ]
    code = run(["make", made, "--directory", str(directory), "--config", str(directory / "tvmake.yaml"), *options])
    if code:
        raise typer.Exit(code)
    with atomic_path(package) as temporary:
        shutil.copyfile(directory / made, temporary)
    typer.echo(printable(f"wrote {wanted}; run it with `tvmake run {wanted}`"))


def _slug(text: str) -> str:
    """A name for a model or target: letters, digits and dashes of what was given."""
    import re

    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "model"


def _shape(text: str) -> tuple[str, list[int]]:
    from tvmake.errors import UsageError

    name, equals, extents = text.partition("=")
    try:
        shape = [int(extent) for extent in extents.strip("[]() ").split(",")]
    except ValueError:
        shape = []
    if not equals or not name or not shape or min(shape) < 1:
        raise UsageError(
            f"--input-shape {text}", "expected INPUT=EXTENTS", "for example: --input-shape image=1,3,224,224"
        )
    return name, shape
