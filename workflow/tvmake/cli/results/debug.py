"""``tvmake debug``: find the first operator of a variant with wrong outputs, and the cause."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli import completion
from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.debug.diagnosis import Diagnosis, Finding
    from tvmake.debug.variant import Variant
    from tvmake.errors import InputError


AFTER_THE_PACKAGE = ("deploy", "validate", "benchmark")
"""Stages that use a package. If they fail, the package can be debugged."""


def debug(
    variant: Annotated[str, typer.Argument(autocompletion=completion.variants, help="model/precision/target.")],
    reproducer: Annotated[
        Path | None,
        typer.Option(
            "--reproducer",
            metavar="DIR",
            help="Write a reproducer to this directory: the operator's values and code.",
        ),
    ] = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """Find the first operator of a variant whose output differs from the original framework's, and the cause.

    The network is run after each stage: imported, transformed, fused, on the device. In the first stage that misses the
    goals, every value is compared with the previous stage. The exit code is 4 if goals are missed.
    """
    from tvmake.debug.diagnosis import write_reproducer
    from tvmake.debug.search import diagnose
    from tvmake.errors import GoalError, InputError
    from tvmake.process.output import printable, redirect_stdout_to_stderr

    if reproducer is not None:
        reproducer = reproducer.absolute()
        if reproducer.exists():
            raise InputError(str(reproducer), "already exists", "name a new directory")
    files = variant_files(directory, config, settings, variant)
    with redirect_stdout_to_stderr():
        diagnosis, evidence = diagnose(files, print)
    if as_json:
        typer.echo(diagnosis.model_dump_json(indent=2))
    else:
        for line in _lines(diagnosis):
            typer.echo(printable(line))
    if diagnosis.finding is None and not diagnosis.missed:
        return
    if reproducer is not None and diagnosis.finding is not None:
        write_reproducer(diagnosis, evidence, reproducer)
        print(f"wrote {reproducer}", file=sys.stderr)
    raise typer.Exit(GoalError.exit_code)


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.variant}, sample {diagnosis.sample} of {diagnosis.samples}, the one with the largest error"
    for level in diagnosis.levels:
        error = "not finite" if level.error is None else f"{level.error:.2g} of the RMS"
        yield f"  {level.level:<9}  {error:<18}  {'; '.join(level.missed) or 'meets the goals'}"
    finding = diagnosis.finding
    if finding is None and diagnosis.missed:
        yield f"no stage differs from the original model in this sample, and the package misses {'; '.join(diagnosis.missed)}"
        yield "remedy:      check the score of the original model on this data: the preprocessing, the labels or the goal may be wrong"
        return
    if finding is None:
        stages = [level.level for level in diagnosis.levels if level.missed]
        if stages:
            yield f"the package meets the goals; {', '.join(stages)} missed goals only as plain loops on this CPU"
        else:
            yield "every stage meets the goals"
        return
    shape = " × ".join(map(str, finding.shape)) or "scalar"
    off = "" if finding.error is None else f", off by {finding.error:.2g} of the RMS"
    yield f"{_label(finding)} {finding.operator} ({finding.value}: {shape}, {finding.dtype}){off}"
    yield f"cause:       {finding.cause}: {finding.detail}"
    yield f"remedy:      {finding.remedy}"


def _label(finding: Finding) -> str:
    """Label of the named operator. It is wrong only if it differs from the previous stage by more than rounding."""
    if finding.layers:
        return "costs most: "
    if not finding.departs:
        return "no operator differs more than others; the last:"
    return "one rounding step off: " if finding.cause == "rounding" else "first wrong:"


def variant_files(directory: Path, config: list[Path] | None, settings: list[str] | None, named: str) -> Variant:
    """Return a variant's files, which must exist.

    Raises:
        InputError: the variant does not exist, is not built, or has no device or no fixed shapes.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.signature import Signature
    from tvmake.benchmark.precision_choice import PrecisionChoice
    from tvmake.cli.configs import named_variants, plan_in
    from tvmake.debug.variant import Variant
    from tvmake.errors import InputError
    from tvmake.quantize.precision import LayerPrecision, precision_of
    from tvmake.stages.model.transform import transform_request
    from tvmake.stages.package.build import build_request
    from tvmake.stages.results.validate import validate_request

    plan = plan_in(directory, config, settings)
    variants = named_variants(plan, named)
    if len(variants) > 1:
        raise InputError(named, f"has {len(variants)} variants", f"name one of them: {', '.join(map(str, variants))}")
    job = plan.context(variants[0])
    if job.device_name is None:
        raise InputError(named, "has no device to run on", f"set targets.{job.target}.device")
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
    if stage_json.load(Signature, Path(files["signature"])).states:
        remedy = (
            f"take `state` out of models.{job.model}, for a variant that takes its states as inputs, and debug that"
        )
        raise InputError(named, "keeps states from run to run, and single runs are compared", remedy)
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
        **{name: Path(file) for name, file in files.items()},
    )


def _failure(results: Path, variant: str, package: Path) -> InputError | None:
    """The error of the last run for a variant's package; None if that run reports none.

    A package older than that run is out of date.
    """
    from tvmake.errors import InputError
    from tvmake.report.load import SUMMARY, load_summary

    summary = results / SUMMARY
    if not summary.is_file() or (package.is_file() and package.stat().st_mtime > summary.stat().st_mtime):
        return None
    for row in load_summary(results).rows:
        if row.variant == variant and row.stage and (row.stage not in AFTER_THE_PACKAGE or not package.is_file()):
            log = f" ({row.log})" if row.log else ""
            remedy = row.remedy or "fix this, then run `tvmake make` again"
            return InputError(
                variant,
                f"{row.stage} failed: {row.cause}{log}",
                f"{remedy}; `tvmake debug` needs a package that runs",
            )
    return None


def _check_network(package: Path, module: Path, params: Path) -> None:
    """Refuse a package that was built from a network other than the current one.

    Raises:
        InputError: it was built from another network.
    """
    from tvmake.artifact.package import inspect
    from tvmake.errors import InputError
    from tvmake.storage.files import digest_file

    made_from = inspect(package).network
    for file in (module, params):
        if made_from.get(file.name, "") != digest_file(file):
            raise InputError(str(package), f"was built from another version of {file}", "`tvmake make` rebuilds it")
