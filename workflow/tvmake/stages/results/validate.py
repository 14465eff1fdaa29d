"""Validate: run a deployed package on the reference's inputs and judge its numerics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.running import ValidateRequest
from tvmake.frontend.model_files import python_file
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.user_files import user_files
from tvmake.storage.temporary import temporary_directory

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping

    import numpy as np

    from tvmake.artifact.fingerprint import Fingerprint
    from tvmake.artifact.signature import TensorSpec
    from tvmake.config.validation import Goals, Metric
    from tvmake.device.interface import Deployment, Device
    from tvmake.stages.context import JobContext
    from tvmake.validate.metrics import MetricFigure
    from tvmake.validate.numerics import NumericsReport
    from tvmake.validate.reference.stored import ReferenceSet


def validate(package: Path, reference: Path, request: ValidateRequest, numerics: Path) -> NumericsReport:
    """Compare a package with its source model and write ``numerics`` for any verdict.

    A package that misses its goals is a result, not an error of the stage.

    Raises:
        InputError: the package or the reference is damaged, or they do not belong together.
        DeviceError: the run crashed or the device was lost.
    """
    from tvmake.artifact import stage_json
    from tvmake.device.connect import connect
    from tvmake.device.store import inspect_package
    from tvmake.validate.reference.stored import ReferenceSet
    from tvmake.validate.result import Numerics

    known = ReferenceSet(reference)
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    is_quantized = inspect_package(package).is_source_quantized
    report, fingerprint = compare(device, deployment, known, request.goals_of(is_quantized))
    judged = Numerics(
        report=report,
        reference=known.info.runtime,
        data=known.info.data,
        is_source_quantized=is_quantized,
        package_sha256=deployment.package_sha256,
        fingerprint=fingerprint,
    )
    stage_json.save(judged, numerics)
    return report


def compare(
    device: Device, deployment: Deployment, known: ReferenceSet, goals: Goals, most: int | None = None
) -> tuple[NumericsReport, Fingerprint]:
    """Run a deployed package on the reference's inputs and judge its outputs.

    Args:
        most: maximum number of samples to run; all by default. Metrics need all.

    Raises:
        DeviceError: the run crashed or the device was lost.
    """
    import zipfile
    from itertools import islice

    from tvmake.artifact.language_model import language_model
    from tvmake.device.interface import RunRequest
    from tvmake.validate.continuation import ContinuedTokens
    from tvmake.validate.numerics import Comparison

    count = len(known) if most is None else min(most, len(known))
    run = RunRequest(samples=count, repeat_first=bool(goals.repeatable), steps=known.info.steps)
    info = known.info
    continued = ContinuedTokens(language_model(info.signature), info.continued) if info.continued else None
    comparison = Comparison(goals, info.steps if info.signature.states else None, continued)
    with temporary_directory("tvmake-validate-") as directory:
        outputs = Path(directory) / "outputs.npz"
        result = device.execute(deployment, run, known.path, outputs)
        with zipfile.ZipFile(outputs) as archive:
            specs = known.info.signature.outputs
            for number, sample in enumerate(islice(known, count)):
                comparison.add(sample.outputs, _outputs(archive, specs, number), sample.labels)
            if run.repeat_first:
                comparison.add_repeat(_outputs(archive, specs, 0), _outputs(archive, specs, count))
            if goals.metrics:
                comparison.add_metrics(_metrics(goals.metrics, known, archive))
    return comparison.report(), result.fingerprint


def _outputs(archive: zipfile.ZipFile, specs: tuple[TensorSpec, ...], number: int) -> dict[str, np.ndarray]:
    from tvmake.artifact.tensor_file import member, read_array

    return {spec.name: read_array(archive, member("output", spec.name, number), spec.dtype) for spec in specs}


def _metrics(metrics: Mapping[str, Metric], known: ReferenceSet, archive: zipfile.ZipFile) -> dict[str, MetricFigure]:
    from tvmake.validate.metrics import MetricSample, MetricSamples, measure

    specs = known.info.signature.outputs

    def of_package() -> Iterator[MetricSample]:
        for number, sample in enumerate(known):
            yield MetricSample(sample.inputs, _outputs(archive, specs, number), sample.labels, sample.truth)

    def of_reference() -> Iterator[MetricSample]:
        for sample in known:
            yield MetricSample(sample.inputs, sample.outputs, sample.labels, sample.truth)

    return measure(metrics, MetricSamples(of_package, len(known)), MetricSamples(of_reference, len(known)))


def validate_request(job: JobContext) -> ValidateRequest:
    """The goals of the package's numerics, and its device."""
    others = job.quantized_goals
    return ValidateRequest(
        **job.device_fields, goals=job.goals.numeric, quantized_goals=None if others is None else others.numeric
    )


def metric_files(job: JobContext) -> list[str]:
    """The Python files of the variant's metrics."""
    return list(dict.fromkeys(python_file(metric.use) for metric in (job.goals.metrics or {}).values()))


def _lines(report: NumericsReport) -> Iterator[str]:
    for missed in report.missed:
        yield f"missed goal {missed.goal}{f' ({missed.output})' if missed.output else ''}: {missed.reason}"
    for warning in report.warnings:
        yield f"warning: {warning}"


STAGE = Stage(
    name="validate",
    summary="Compare a package on its device with the original model.",
    function=validate,
    inputs=(
        Input("package.tar", "package"),
        Input("receipt.json"),
        Input("reference.npz", "reference"),
        Input(files=metric_files),
    ),
    outputs=(Output("numerics.json", paths.VARIANT, "numerics", "Figures and verdict to write (JSON)."),),
    logs=(Log("{model}/{precision}/{target}/validate.log"),),
    request_model=ValidateRequest,
    request=validate_request,
    exists=lambda job: job.device_name is not None,
    report=_lines,
    reads=lambda arguments: [
        arguments["package"].with_name("receipt.json"),
        *user_files(goals=arguments["request"].goals),
    ],
    is_goal=True,
    memory_mb=1200,
    minutes=30,
    is_on_device=True,
    preload=("tvmake.validate.numerics",),
)
