"""``tvmake debug``: the first operator of a variant that is wrong, and whose fault it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli import completion
from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.artifact.calibration import Calibration
    from tvmake.config.requests.calibrating import CalibrateRequest
    from tvmake.debug.diagnosis import Diagnosis, Finding
    from tvmake.debug.variant import Variant
    from tvmake.errors import InputError
    from tvmake.quantize.precision import PrecisionConfig


AFTER_THE_PACKAGE = ("deploy", "validate", "benchmark")
"""Stages that use a package: where they fail, it is the one to look into."""


def debug(
    variant: Annotated[str, typer.Argument(autocompletion=completion.variants, help="model/precision/target.")],
    reproducer: Annotated[
        Path | None,
        typer.Option(
            "--reproducer",
            metavar="DIR",
            help="Write what is needed to see the fault again to this directory: values and code of the operator alone.",
        ),
    ] = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """Name the first operator of a variant whose output departs from the original framework's, and what makes it do so.

    The network is run as each stage left it: imported, transformed, fused, on the device. In the first that misses the goals
    every value is compared with the one before it. The exit code is 4 where goals are missed.
    """
    from tvmake.debug.reproducer import write_reproducer
    from tvmake.debug.search import diagnose
    from tvmake.errors import GoalError, InputError
    from tvmake.process.output import printable, redirect_stdout_to_stderr

    if reproducer is not None:
        reproducer = reproducer.absolute()
        if reproducer.exists():
            raise InputError(str(reproducer), "is there already", "give a directory that is not there yet")
    files = variant_files(directory, config, settings, variant)
    with redirect_stdout_to_stderr():
        found, evidence = diagnose(files, print)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        for line in _lines(found):
            typer.echo(printable(line))
    if found.finding is None and not found.missed:
        return
    if reproducer is not None and found.finding is not None:
        write_reproducer(found, evidence, reproducer)
        print(f"wrote {reproducer}", file=sys.stderr)
    raise typer.Exit(GoalError.exit_code)


def _lines(found: Diagnosis) -> Iterator[str]:
    yield f"{found.variant}, sample {found.sample} of {found.samples}, the one with the largest error"
    for level in found.levels:
        error = "no numbers" if level.error is None else f"{level.error:.2g} of the RMS"
        yield f"  {level.level:<9}  {error:<18}  {'; '.join(level.missed) or 'meets the goals'}"
    finding = found.finding
    if finding is None and found.missed:
        yield f"no stage departs from the original model in this sample, and the package misses {'; '.join(found.missed)}"
        yield "remedy:      see what the original model scores with this data: its preprocessing, its labels, or the goal may be wrong"
        return
    if finding is None:
        stages = [level.level for level in found.levels if level.missed]
        if stages:
            yield f"the package meets the goals; what {', '.join(stages)} misses, as plain loops on this CPU, is no fault of it"
        else:
            yield "every stage meets the goals"
        return
    shape = " × ".join(map(str, finding.shape)) or "one number"
    off = "" if finding.error is None else f", off by {finding.error:.2g} of the RMS"
    yield f"{_place(finding)} {finding.operator} ({finding.value}: {shape}, {finding.dtype}){off}"
    yield f"cause:       {finding.cause}: {finding.detail}"
    yield f"remedy:      {finding.remedy}"


def _place(finding: Finding) -> str:
    """What is true of the operator that is named: it is wrong only where it departs, and by more than rounding."""
    if finding.layers:
        return "costs most: "
    if not finding.departs:
        return "no operator departs more than others; the last:"
    return "a step off: " if finding.cause == "rounding" else "first wrong:"


def variant_files(directory: Path, config: list[Path] | None, settings: list[str] | None, named: str) -> Variant:
    """A variant's files, which must be there.

    Raises:
        InputError: there is no such variant, it is not made, or it has no device or no fixed shapes.
    """
    from tvmake.artifact import stage_json
    from tvmake.benchmark.precision_choice import PrecisionChoice
    from tvmake.cli.configs import named_variants, plan_in
    from tvmake.debug.variant import Variant
    from tvmake.errors import InputError
    from tvmake.quantize.precision import LayerPrecision, precision_of
    from tvmake.stages.model.calibrate import calibrate_request
    from tvmake.stages.model.transform import transform_request
    from tvmake.stages.package.build import build_request
    from tvmake.stages.results.validate import validate_request

    plan = plan_in(directory, config, settings)
    variants = named_variants(plan, named)
    if len(variants) > 1:
        raise InputError(named, f"has {len(variants)} variants", f"name one of them: {', '.join(map(str, variants))}")
    job = plan.context(variants[0])
    if job.device_name is None:
        raise InputError(named, "has no device to run on", f"give targets.{job.target} a `device`")
    files = {
        "imported": job.file("model.json"),
        "imported_params": job.file("model.params"),
        "signature": job.file("signature.json"),
        "reference": job.file("reference.npz"),
        "module": job.network_file("module.json"),
        "params": job.network_file("module.params"),
        "package": job.file("package.tar"),
        **({"calibration": job.file("calibration.json")} if job.precision_config.is_calibrated else {}),
        **({"best": job.file("best.json")} if job.is_tuned else {}),
    }
    choice = job.file("precision.json") if job.chooses_precision else None
    missing = [file for file in (*files.values(), *([choice] if choice else [])) if not Path(file).is_file()]
    failure = _failure(Path(plan.config.results), str(variants[0]), Path(files["package"]))
    if missing or failure:
        raise failure or InputError(missing[0], "no such file", "`tvmake make` makes it")
    _check_network(Path(files["package"]), Path(files["module"]), Path(files["params"]))
    transforming = transform_request(job)
    layers: tuple[LayerPrecision, ...] = ()
    if choice:
        assignment = stage_json.load(PrecisionChoice, Path(choice)).assignment
        transforming = transforming.model_copy(update={"precision": precision_of(assignment, transforming.precision)})
        layers = tuple(assignment.layers)
    return Variant(
        name=str(variants[0]),
        source=job.import_options,
        assignment=layers,
        transforming=transforming,
        base=job.precision_config.base,
        building=build_request(job),
        validating=validate_request(job),
        recalibrate=partial(_recalibrated, calibrate_request(job), files) if "calibration" in files else None,
        **{name: Path(file) for name, file in files.items()},
    )


def _recalibrated(request: CalibrateRequest, files: dict[str, str], precision: PrecisionConfig) -> Calibration:
    """The ranges that a variant's data give with other options."""
    from tvmake.stages.model.calibrate import calibrate
    from tvmake.storage.temporary import temporary_directory

    module, params, signature = (Path(files[name]) for name in ("imported", "imported_params", "signature"))
    with temporary_directory("tvmake-debug-") as directory:
        changed = request.model_copy(update={"precision": precision})
        return calibrate(module, params, signature, changed, Path(directory) / "calibration.json")


def _failure(results: Path, variant: str, package: Path) -> InputError | None:
    """Why the last run has not made a variant's package, which to run it again would not change; None where it says nothing of that.

    A package that is older than that run is not what the run was to make.
    """
    from tvmake.errors import InputError
    from tvmake.report.load import SUMMARY, load_summary

    summary = results / SUMMARY
    if not summary.is_file() or (package.is_file() and package.stat().st_mtime > summary.stat().st_mtime):
        return None
    for row in load_summary(results).rows:
        if row.variant == variant and row.stage and (row.stage not in AFTER_THE_PACKAGE or not package.is_file()):
            log = f" ({row.log})" if row.log else ""
            remedy = row.remedy or "mend that, and `tvmake make` again"
            return InputError(
                variant,
                f"{row.stage} failed: {row.cause}{log}",
                f"{remedy}; `tvmake debug` looks into packages that run",
            )
    return None


def _check_network(package: Path, module: Path, params: Path) -> None:
    """Refuse a package that was made from another network than the one that lies there.

    Raises:
        InputError: it was.
    """
    from tvmake.artifact.package import inspect
    from tvmake.errors import InputError
    from tvmake.storage.files import digest_file

    made_from = inspect(package).network
    for file in (module, params):
        if made_from.get(file.name, "") != digest_file(file):
            raise InputError(
                str(package), f"was made from another {file.name} than {file}", "`tvmake make` makes it anew"
            )
