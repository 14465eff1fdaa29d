"""Benchmark: time a deployed package on its device, with exclusive access."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.device import LocalDeviceConfig
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.frontend.formats import BASELINES, modules_by_options
from tvmake.stages.descriptor import Input, Log, Output, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tvmake.artifact.manifest import Manifest
    from tvmake.benchmark.baseline.result import Baseline, NoBaseline
    from tvmake.benchmark.result import Condition, Latency, LatencyReport, ShapeLatency
    from tvmake.device.interface import Deployment, Device, RunResult, Timing
    from tvmake.frontend.options import ImportOptions
    from tvmake.stages.context import JobContext


def benchmark(
    package: Path, reference: Path, request: BenchmarkRequest, latency: Path, source: Path | None = None
) -> Latency:
    """Time a package on the first sample of ``reference``, interleaved with its baseline if there is one, and write ``latency``.

    A baseline that cannot be measured is a note beside the package's figures, not an error.

    Args:
        source: record of the imported source (a ``SourceRecord``), which the baseline must match.

    Raises:
        InputError: the package or the inputs are damaged, or the baseline's files have changed since the import.
        DeviceError: the run crashed, took too long, or the device was lost.
    """
    import os

    from tvmake.artifact import stage_json
    from tvmake.artifact.source import SourceRecord
    from tvmake.benchmark.result import Latency
    from tvmake.device.connect import connect
    from tvmake.device.store import inspect_package

    imported = stage_json.load(SourceRecord, source) if source else None
    if imported:
        imported.check_files()
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    with device.exclusive():
        is_local = isinstance(request.device, LocalDeviceConfig)
        here = {"load_average_1m": round(os.getloadavg()[0], 2)} if is_local else {}
        result, baseline = _measure(device, deployment, request, reference)
        shapes = _measure_shapes(device, deployment, request, inspect_package(package))
    if imported:
        imported.check_files()  # the baseline has read it meanwhile
    measured = Latency(
        report=_report(request, result.timing, {**here, **result.timing.conditions}),
        package_sha256=deployment.package_sha256,
        baseline_memory_bytes=result.timing.baseline_memory_bytes,
        fingerprint=result.fingerprint,
        baseline=baseline,
        shapes=shapes,
    )
    stage_json.save(measured, latency)
    return measured


def _measure(
    device: Device, deployment: Deployment, request: BenchmarkRequest, reference: Path
) -> tuple[RunResult, Baseline | NoBaseline | None]:
    from tvmake.benchmark.baseline.process import baseline_process
    from tvmake.config.device_variables import plain
    from tvmake.device.interface import RunRequest
    from tvmake.device.local.device import LocalDevice
    from tvmake.validate.reference.stored import ReferenceSet

    steps = ReferenceSet(reference).sequence_length
    run = RunRequest(samples=1, want_outputs=False, measurement=request.measurement, timed_steps=steps)
    if request.baseline is None or not isinstance(device, LocalDevice):
        return device.execute(deployment, run, reference, None), None
    with baseline_process(request, reference, plain(device.config.env, device.where)) as baseline:
        result = device.execute(deployment, run, reference, None, baseline.address)
        return result, baseline.result()


def _measure_shapes(
    device: Device, deployment: Deployment, request: BenchmarkRequest, manifest: Manifest
) -> list[ShapeLatency]:
    """Time each shape for which a package has code of its own, and an example of each range of other sizes, on random inputs."""
    from tvmake.artifact.other_sizes import other_sizes
    from tvmake.benchmark.result import ShapeLatency
    from tvmake.benchmark.statistics import latency_statistics
    from tvmake.device.interface import RunRequest
    from tvmake.storage.temporary import temporary_directory
    from tvmake.validate.samples import random_samples, write_inputs

    run = RunRequest(
        samples=1, want_outputs=False, measurement=request.measurement.model_copy(update={"profile_ops": False})
    )
    measured = []
    shapes = [(function.sizes, "") for function in manifest.functions if function.sizes]
    for shape, how in [*shapes, *((entry.smallest, entry.how) for entry in other_sizes(manifest))]:
        with temporary_directory("tvmake-shape-") as directory:
            inputs = Path(directory) / "inputs.npz"
            write_inputs(inputs, *random_samples(manifest.signature, 1, dims=shape))
            timing = device.execute(deployment, run, inputs, None).timing
        statistics = latency_statistics(timing.samples_ms)
        measured.append(
            ShapeLatency(
                sizes=shape, how=how, number=timing.number, samples_ms=timing.samples_ms, statistics=statistics
            )
        )
    return measured


def _report(request: BenchmarkRequest, timing: Timing, conditions: Mapping[str, Condition]) -> LatencyReport:
    from tvmake.benchmark.ops import KernelCall, kernel_table
    from tvmake.benchmark.result import latency_report

    calls = [KernelCall(kernel=op.name, duration_ms=op.ms) for op in timing.op_runs]
    runs = len({op.run for op in timing.op_runs})
    return latency_report(
        request.measurement,
        timing.samples_ms,
        number=timing.number,
        load_ms=timing.load_ms,
        first_run_ms=timing.first_run_ms,
        warmup_ms=timing.warmup_ms,
        peak_memory_bytes=timing.peak_memory_bytes,
        steps_ms=timing.steps_ms,
        ops=kernel_table(calls, runs) if calls else (),
        conditions=conditions,
    )


def benchmark_request(job: JobContext) -> BenchmarkRequest:
    """How and where the package is timed."""
    measurement = job.benchmark.measurement()
    return BenchmarkRequest(**job.device_fields, measurement=measurement, baseline=_baseline(job))


def _baseline(job: JobContext) -> ImportOptions | None:
    """The source model if the benchmark also measures it: on this machine's CPU, where the package runs too."""
    is_here = isinstance(job.device_fields["device"], LocalDeviceConfig) and job.target_fields["target"].runs_on_cpu
    return job.import_options if job.benchmark.baseline and is_here else None


def baseline_files(job: JobContext) -> list[str]:
    """The record with the baseline's files; none if it is not measured."""
    return [job.file("source.json")] if _baseline(job) else []


def framework_modules(request: BenchmarkRequest) -> tuple[str, ...]:
    """The module that runs the baseline."""
    if request.baseline is None:
        return ()
    kind = str(request.baseline.source_format())
    return (*([BASELINES[kind]] if kind in BASELINES else []), *modules_by_options(request.baseline))


def _lines(measured: Latency) -> Iterator[str]:
    from tvmake.benchmark.baseline.result import NoBaseline

    if isinstance(measured.baseline, NoBaseline):
        yield f"no baseline: {measured.baseline.problem}"


STAGE = Stage(
    name="benchmark",
    summary="Time a package on its device.",
    function=benchmark,
    inputs=(
        Input("package.tar", "package"),
        Input("receipt.json"),
        Input("reference.npz", "reference"),
        Input(
            "source.json",
            "source",
            baseline_files,
            "Record of the baseline's source.",
            is_optional=True,
            has_no_time=True,  # a comment in the model changes it, but no figure
        ),
    ),
    outputs=(Output("latency.json", paths.VARIANT, "latency", "Samples and statistics to write (JSON)."),),
    logs=(Log("{model}/{precision}/{target}/benchmark.log"),),
    request_model=BenchmarkRequest,
    request=benchmark_request,
    exists=lambda job: job.device_name is not None,
    report=_lines,
    code=framework_modules,
    reads=lambda arguments: [arguments["package"].with_name("receipt.json")],
    is_goal=True,
    memory_mb=2500,
    minutes=30,
    more_seconds=lambda job: 2 * job.benchmark.measurement().min_duration_s,
    is_on_device=True,
    is_timing=True,
    is_alone=True,
)
