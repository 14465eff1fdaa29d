"""``tvmake compile``: build one package from one model, without a config."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tvmake.cli.configs import Settings
from tvmake.cli.single import (  # fmt: skip
    Cores,
    Dimensions,
    Model,
    OnDevice,
    PackageShapes,
    Precision,
    Quiet,
    Shapes,
    State,
    Target,
    Trusted,
    Values,
)
from tvmake.cli.terminal import output_file
from tvmake.plan.single import NATIVE

if TYPE_CHECKING:
    from tvmake.artifact.manifest import Unscheduled


def compile_model(
    model: Model,
    target: Target = NATIVE,
    precision: Precision = "float32",
    tune: Annotated[
        int | None,
        typer.Option(
            "--tune", min=0, metavar="TRIALS",
            help="Search for fast kernels with this many measurements. [default: use the results of an earlier `tvmake tune`, if any]",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", parser=output_file, help="The package to write. [default: MODEL.tar]")] = None,
    shapes: Shapes = None,
    values: Values = None,
    state: State = None,
    dims: Dimensions = None,
    package_shapes: PackageShapes = None,
    device: OnDevice = None,
    layout: Annotated[
        Literal["keep", "NCHW", "NHWC", "auto"],
        typer.Option("--layout", help="Data layout of convolutions and of the operators after them."),
    ] = "keep",
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", min=0, max=4, help="TVM's pass level.")] = 3,
    pass_config: Annotated[
        list[str] | None,
        typer.Option("--pass-config", metavar="NAME=VALUE", help="A TVM pass option; repeatable."),
    ] = None,
    disabled_passes: Annotated[
        list[str] | None,
        typer.Option("--disabled-pass", metavar="NAME,…", help="TVM passes to disable; repeatable."),
    ] = None,
    dump: Annotated[
        list[str] | None,
        typer.Option(
            "--dump-code", metavar="FORM,…",
            help="Keep intermediate code in a directory beside the package: relax, tir, ll, asm, kernels, passes (the module after each pass).",
        ),
    ] = None,
    pass_times: Annotated[bool, typer.Option("--print-pass-times", help="Print how long each of TVM's passes took.")] = False,
    compiler: Annotated[
        str | None, typer.Option("--cross-compiler", metavar="PROGRAM", help="Program that links the code, e.g. aarch64-linux-gnu-g++.")
    ] = None,
    link_options: Annotated[
        str | None, typer.Option("--cross-compiler-options", metavar="OPTIONS", help="Additional arguments for that program.")
    ] = None,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Add samples for `tvmake run --self-test` to the package. This runs the model in its own framework."),
    ] = False,
    trusted: Trusted = False,
    settings: Settings = None,
    cores: Cores = None,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Compile one model for one target into one package, without a config.

    Results that exist already are reused. The run is in .tvmake/, with a config to continue from (`tvmake make -d`). Tuning
    records are in the store that all runs share.
    """
    import shutil

    from tvmake.artifact.package import inspect, is_package
    from tvmake.cli.configs import overlay, print_note
    from tvmake.cli.dimensions import input_lines, shape_lines, split_dimensions
    from tvmake.cli.single import build_artifact, single_run, split_names
    from tvmake.config.reading.load import merge
    from tvmake.frontend.suggested_states import suggest_states
    from tvmake.plan.written_packages import note_package, replaced_source
    from tvmake.process.output import counted, printable
    from tvmake.report.unscheduled import fix_dims
    from tvmake.storage.destinations import check_destination
    from tvmake.storage.files import atomic_directory, copy_file

    linking = {"cc": compiler, "link_options": shlex.split(link_options) if link_options else None}
    layer: dict[str, Any] = {
        "transform": {"layout": layout},
        "build": {
            "opt_level": opt_level,
            "pass_config": _pass_settings(pass_config or ()),
            "disabled_passes": split_names(disabled_passes),
            "dump": [*split_names(dump), *(["times"] if pass_times else [])],
        },
    }
    keys = {key: value for key, value in linking.items() if value}
    over = merge(layer, overlay(settings))
    options = _option_texts(pass_config, disabled_passes, dump)
    run = single_run(
        model,
        target,
        precision,
        tune,
        shapes,
        device,
        over,
        keys,
        dims=dims,
        package_shapes=package_shapes,
        values=values,
        state=state,
        trusted=trusted,
        self_test=self_test,
        options=options if tune is None else {**options, "tuning.trials": f"--tune {tune}"},
    )
    package = output or Path(f"{run.model_name}.tar")
    check_destination(package, "package", is_package)
    if replaced := replaced_source(run.parent, package, run.full_source):
        problem = f"{package} is a package of {replaced}, and is replaced by one of {model}"
        print_note(printable(f"{problem}; --output names another file"))
    if tune is None and run.trials and not quiet:
        print_note(
            f"using the kernels that `tvmake tune` found in {counted(run.trials, 'trial')}; --tune 0 compiles without them"
        )
    with build_artifact(run, "package.tar", cores, quiet) as file:
        copy_file(file, package)
        note_package(run.parent, package, run.full_source)
        if dump:
            sources = package.with_suffix(".sources")
            with atomic_directory(sources) as temporary:
                shutil.copytree(
                    run.directory / run.result("sources"),
                    temporary,
                    ignore=shutil.ignore_patterns(".*"),
                    dirs_exist_ok=True,
                )
            typer.echo(printable(f"wrote {sources.name}/"))
            if "kernels" in split_names(dump) and not (sources / "kernels").is_dir():
                print_note("this target's kernels have no separate source: use `ll` or `asm`")
        if pass_times:
            _print_pass_times(run.directory / run.build_log)
    manifest = inspect(package)
    kind = manifest.device_kind
    typer.echo(
        printable(f"wrote {package}; {_how_to_run(package, kind, run.directory / run.result('mod.so'), device)}")
    )
    translate = run.notation().translate
    inputs = input_lines(manifest.signature, run.input_values, split_dimensions(manifest))
    for line in [*inputs, *shape_lines(manifest)]:
        typer.echo(translate(line))
    if not manifest.signature.states and (suggested := suggest_states(manifest.signature)):
        pairs = ", ".join(f"{given}: {returned}" for given, returned in suggested.items())
        problem = "by their names, outputs are the next values of inputs"
        print_note(printable(translate(f"{problem}: `state: {{{pairs}}}` keeps them in the package from run to run")))
    if manifest.clml == [] and (names := list(manifest.signature.dynamic_dimensions)):
        problem = "no layer runs in CLML, which does not take dynamic dimensions"
        typer.echo(printable(translate(f"warning: {problem}; {fix_dims(names)} fixes them")), err=True)
    _print_unscheduled(manifest.unscheduled, translate)


def _option_texts(
    pass_config: list[str] | None, disabled_passes: list[str] | None, dump: list[str] | None
) -> dict[str, str]:
    """Map config keys to the options that set them, as typed."""
    options = (
        ("build.pass_config", "--pass-config", pass_config),
        ("build.disabled_passes", "--disabled-pass", disabled_passes),
        ("build.dump", "--dump-code", dump),
    )
    return {key: " ".join(f"{option} {text}" for text in texts) for key, option, texts in options if texts}


def _print_unscheduled(part: "Unscheduled | None", translate: Callable[[str], str]) -> None:
    """Print which kernels have no schedule; a warning if most of the time is in them."""
    from tvmake.cli.configs import print_note
    from tvmake.process.output import printable
    from tvmake.report.unscheduled import is_alarming, unscheduled_lines

    for line in map(translate, unscheduled_lines(part)):
        if part is not None and is_alarming(part.time_share):
            typer.echo(printable(f"warning: {line}"), err=True)
        else:
            print_note(printable(line))


def _how_to_run(package: Path, kind: str, library: Path, device: str | None) -> str:
    import platform

    from tvmake.device.architecture import is_for
    from tvmake.native.wheel_runtimes import has_runtime
    from tvmake.process.output import argument

    name = argument(package)
    if device and device != "local":
        return f"run it with `tvmake run {name} -d {device}`"
    if not has_runtime(kind):
        return f"TVM here has no runtime for {kind} kernels; run it on a machine that has one: `tvmake run {name} -d rpc:TRACKER:PORT/KEY`"
    if is_for(library, platform.machine()):
        needs = "" if kind == "cpu" else f" where there is a device for {kind}"
        return f"run it with `tvmake run {name}`{needs}"
    return f"run it on its device: `tvmake run {name} -d ssh:HOST`, or `-d adb:SERIAL`"


def _print_pass_times(log: Path) -> None:
    """Print how long each pass took, from the build's log."""
    from tvmake.cli.configs import print_note
    from tvmake.codegen.options import PASS_TIME

    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(PASS_TIME)]
    for line in lines:
        typer.echo(line.removeprefix(PASS_TIME))
    if not lines:
        print_note("no pass ran: the result came from the cache")


def _pass_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` texts. VALUE is YAML, NAME may have dots."""
    from tvmake.cli.configs import overlay

    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        (parsed,) = overlay(
            [f"value={value}" if equals and name else text], "--pass-config", "tirx.disable_vectorize=true"
        ).values()
        settings[name] = parsed
    return settings
