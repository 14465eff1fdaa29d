"""Shared by ``tvmake compile`` and ``tvmake tune``: a run of one model for one target without a config."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli import completion

if TYPE_CHECKING:
    from tvmake.config.target import TargetConfig
    from tvmake.plan.single import SingleRun

Model = Annotated[str, typer.Argument(help="A .onnx, .pt2, .pt, .tflite, .keras, .h5 or .mlir file, or zoo:<name>.")]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        autocompletion=completion.targets,
        help="A name from `tvmake targets`, or a target in TVM's syntax; `native` is this machine's CPU.",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision", help="float32, tf32, float16, float16_acc32, int8, int8_weights, int4_weights or auto."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        metavar="INPUT=1,3,224,224",
        help="Shape of an input with dynamic dimensions; a name keeps one dynamic; repeatable.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--input-value",
        metavar="INPUT=VALUE",
        help="Fix an input to a value (sr=16000) and remove it from the package; repeatable.",
    ),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="INPUT=OUTPUT",
        help="Keep an input from run to run: the output is its next value (state=stateN, past.%d.key=present.%d.key); repeatable.",
    ),
]
Dimensions = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE|MIN..MAX",
        help="Fix a dynamic dimension (batch=1), or bound it (length=1..512, length=..512); repeatable.",
    ),
]
PackageShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZE,…",
        help="Add code for these sizes of a dynamic dimension (batch=1,8), or of several (batch=8,length=128); repeatable.",
    ),
]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted",
        help="Allow the model to run its own code when it is loaded (.keras, .h5, .pt and some .pt2 files).",
    ),
]
OnDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-D",
        metavar="NAME",
        help="Device to measure kernels on: a device of the config here, or its address (ssh:HOST, adb:SERIAL, rpc:TRACKER:PORT/KEY).",
    ),
]
Cores = Annotated[str | None, typer.Option("--cores", "-j", help="Cores to use. [default: all]")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print failures and the result only.")]


def single_run(
    model: str,
    target: str,
    precision: str,
    trials: int | None,
    shapes: list[str] | None,
    device: str | None,
    layer: Mapping[str, Any],
    target_keys: Mapping[str, Any] | None = None,
    *,
    dims: list[str] | None = None,
    package_shapes: list[str] | None = None,
    values: list[str] | None = None,
    state: list[str] | None = None,
    trusted: bool = False,
    self_test: bool = False,
    options: Mapping[str, str] | None = None,
) -> SingleRun:
    """The run for one package. Without a number of trials it uses the results of an earlier tuning, if any.

    Args:
        layer: a config layer that overrides the options.
        target_keys: additional keys of the target.
        dims: sizes and bounds of dynamic dimensions, as typed.
        package_shapes: sizes of dynamic dimensions for which the package has code of its own, as typed.
        values: values of inputs, as typed.
        state: inputs that are kept from run to run, with the outputs that are their next values, as typed.
        trusted: whether loading the model may run code.
        self_test: whether the package gets samples for its self-test.
        options: options by the dotted config key that they set.

    Raises:
        TvmakeError: an option is invalid, or the model or device does not exist.
    """
    from tvmake.plan.single import SingleRun

    inputs: dict[str, dict[str, Any]] = {
        name: {"shape": shape} for name, shape in values_by_name("--input-shape", _shape, shapes).items()
    }
    for name, value in values_by_name("--input-value", _value, values).items():
        inputs.setdefault(name, {})["value"] = value
    where = _device(device) if device is not None else None
    sizes = values_by_name("--dim", _dimension, dims)
    sizes_of_functions = [shape for text in package_shapes or () for shape in _package_shapes(text)]
    model_keys = {
        "inputs": inputs,
        **({"dims": sizes} if sizes else {}),
        **({"shapes": sizes_of_functions} if sizes_of_functions else {}),
        **({"state": values_by_name("--state", _pair, state)} if state else {}),
        **({"trusted": True} if trusted else {}),
    }
    run = SingleRun(
        model,
        target,
        precision,
        trials or 0,
        model_keys,
        target_keys or {},
        layer,
        options=options or {},
        device=where,
        self_test=self_test,
    )
    model_key = f"models.{run.model_name}"
    names = dict(options or {})
    if trials is not None:
        names.setdefault("tuning.trials", f"--trials {trials}")
    names |= {f"{model_key}.dims.{text.rpartition('=')[0]}": f"--dim {text}" for text in dims or ()}
    for key, option, texts in (("shape", "--input-shape", shapes), ("value", "--input-value", values)):
        names |= {f"{model_key}.inputs.{text.partition('=')[0]}.{key}": f"{option} {text}" for text in texts or ()}
    if state:
        names[f"{model_key}.state"] = " ".join(f"--state {text}" for text in state)
    if package_shapes:
        names[f"{model_key}.shapes"] = " ".join(f"--shape {text}" for text in package_shapes)
    run = replace(run, options=names)
    return run.as_tuned() if trials is None and device is None else run


@contextmanager
def build_artifact(run: SingleRun, artifact: str, cores: str | None, quiet: bool) -> Iterator[Path]:
    """Build a result of the run's variant and yield its file. The run's directory is locked during the block.

    Raises:
        TvmakeError: the config is invalid, or the target cannot be built for.
        typer.Exit: the build failed; the reason was printed.
    """
    from tvmake.cli import run as tvmake

    run.check_config()
    with run.lock_directory():
        target = run.write_config()
        if not (run.directory / run.result("mod.so")).exists():
            _check_target(run, target)
        options = [*(["--cores", cores] if cores else []), *(["--quiet"] if quiet else [])]
        here = Path.cwd()
        code = tvmake([*run.command(artifact), *options])
        os.chdir(here)
        if code:
            raise typer.Exit(code)
        yield run.directory / run.result(artifact)


def _check_target(run: SingleRun, target: TargetConfig) -> None:
    """Refuse a target that cannot be built for before a large model is imported for it."""
    from tvmake.errors import TvmakeError
    from tvmake.targets.validate import check_target

    try:
        check_target(target, f"targets.{run.target_name}")
    except TvmakeError as error:
        where = run.notation().option_of(error.where) or error.where
        raise type(error)(where, error.problem, error.remedy) from None


def split_names(texts: Iterable[str] | None) -> list[str]:
    """Split comma-separated texts into names."""
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]


def _device(name: str) -> dict[str, Any]:
    from tvmake.cli.device.app import chosen_device

    device = chosen_device(name, None)
    return {**device.model_dump(mode="json", exclude_unset=True), "via": device.via}


def values_by_name(option: str, parse: Callable[[str], tuple[str, Any]], typed: Sequence[str] | None) -> dict[str, Any]:
    """The values of an option that is repeatable, by name; a name that is given twice is refused."""
    from tvmake.errors import UsageError

    values: dict[str, Any] = {}
    for text in typed or ():
        name, value = parse(text)
        if name in values:
            raise UsageError(f"{option} {text}", f"'{name}' has a value already", "leave one of them out")
        values[name] = value
    return values


def _shape(text: str) -> tuple[str, list[int | str]]:
    from tvmake.errors import UsageError

    name, equals, sizes = text.partition("=")
    if ".." in sizes:
        problem = "sizes of an input are whole numbers"
        raise UsageError(f"--input-shape {text}", problem, "give bounds by the dimension's name: --dim length=1..512")
    extents = [size.strip() for size in sizes.strip("[]() ").split(",")]
    shape = [int(extent) if extent.isascii() and extent.isdigit() else extent for extent in extents]
    if not equals or not name or not all(isinstance(extent, int) or extent.isidentifier() for extent in shape):
        raise UsageError(
            f"--input-shape {text}", "expected INPUT=SIZES", "for example: --input-shape image=1,3,224,224"
        )
    return name, shape


def _value(text: str) -> tuple[str, Any]:
    import yaml

    from tvmake.errors import UsageError

    name, equals, written = text.partition("=")
    try:
        value = yaml.safe_load(written)
    except yaml.YAMLError:
        value = None
    if not equals or not name or not isinstance(value, bool | int | float | list):
        remedy = "for example: --input-value sr=16000, --input-value scale=[0.5,2]"
        raise UsageError(f"--input-value {text}", "expected INPUT=NUMBER", remedy)
    return name, value


def _pair(text: str) -> tuple[str, str]:
    from tvmake.errors import UsageError

    given, _, returned = text.partition("=")
    if not given or not returned:
        remedy = "for example: --state state=stateN, --state past.%d.key=present.%d.key"
        raise UsageError(f"--state {text}", "expected INPUT=OUTPUT", remedy)
    return given, returned


def _dimension(text: str) -> tuple[str, int | dict[str, int]]:
    """Parse a dimension's name, and its size or bounds in the config's form."""
    from tvmake.errors import UsageError

    name, _, size = text.rpartition("=")
    minimum, dots, maximum = (part.strip() for part in size.partition(".."))
    ends = {"min": minimum, "max": maximum} if dots else {"min": minimum}
    numbers = {end: int(number) for end, number in ends.items() if number.isascii() and number.isdigit()}
    if not name or len(numbers) < len([number for number in ends.values() if number]) or not numbers:
        remedy = "for example: --dim batch=1, --dim length=1..512"
        raise UsageError(f"--dim {text}", "expected NAME=SIZE or NAME=MIN..MAX", remedy)
    return name, numbers if dots else numbers["min"]


def dimension_size(text: str) -> tuple[str, int]:
    """Parse a dimension's name and its size.

    Raises:
        UsageError: it is something else.
    """
    from tvmake.errors import UsageError

    name, _, size = text.rpartition("=")
    if not name or not (size.isascii() and size.isdigit()):
        raise UsageError(f"--dim {text}", "expected NAME=SIZE", "for example: --dim batch=8")
    return name, int(size)


def _package_shapes(text: str) -> list[dict[str, int]]:
    """Parse sizes of one dimension, each a shape, or one size for each of several dimensions."""
    from tvmake.errors import UsageError

    sizes: dict[str, list[int]] = {}
    name = ""
    for part in text.split(","):
        before, equals, size = part.rpartition("=")
        name = before.strip() if equals else name
        number = size.strip()
        if not name or not (number.isascii() and number.isdigit()) or (equals and name in sizes):
            sizes = {}
            break
        sizes.setdefault(name, []).append(int(number))
    if not sizes or (len(sizes) > 1 and any(len(numbers) > 1 for numbers in sizes.values())):
        remedy = "for example: --shape batch=1,8, or --shape batch=8,length=128"
        raise UsageError(f"--shape {text}", "expected sizes of one dimension, or one size for each of several", remedy)
    if len(sizes) == 1:
        return [{name: number} for number in sizes[name]]
    return [{name: number for name, (number,) in sizes.items()}]
