"""Benchmark: time a deployed package, alone on its device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.stages.descriptor import Input, JobContext, Log, Output, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tvmake.benchmark.result import Condition, LatencyReport
    from tvmake.device.interface import Timing


def benchmark(package: Path, reference: Path, request: BenchmarkRequest, latency: Path) -> LatencyReport:
    """Time a package on the first sample of ``reference`` and write ``latency``.

    Raises:
        InputError: the package or the inputs are damaged.
        DeviceError: the run crashed, took too long, or the device was lost.
    """
    import os

    from tvmake.artifact import stage_json
    from tvmake.benchmark.result import Latency
    from tvmake.config.device import LocalDeviceConfig
    from tvmake.device.connect import connect
    from tvmake.device.interface import RunRequest

    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    run = RunRequest(samples=1, want_outputs=False, measurement=request.measurement)
    with device.exclusive():
        is_local = isinstance(request.device, LocalDeviceConfig)
        here = {"load_average_1m": round(os.getloadavg()[0], 2)} if is_local else {}
        result = device.execute(deployment, run, reference, None)
    report = _report(request, result.timing, {**here, **result.timing.conditions})
    measured = Latency(
        report=report,
        package_sha256=deployment.package_sha256,
        baseline_memory_bytes=result.timing.baseline_memory_bytes,
        fingerprint=result.fingerprint,
    )
    stage_json.save(measured, latency)
    return report


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
        ops=kernel_table(calls, runs) if calls else (),
        conditions=conditions,
    )


def benchmark_request(job: JobContext) -> BenchmarkRequest:
    """How the package is timed, and where."""
    return BenchmarkRequest(**job.device_fields, measurement=job.measurement)


STAGE = Stage(
    name="benchmark",
    summary="Time a package on its device.",
    function=benchmark,
    inputs=(Input("package.tar", "package"), Input("receipt.json"), Input("reference.npz", "reference")),
    outputs=(Output("latency.json", paths.VARIANT, "latency", "Samples and statistics to write (JSON)."),),
    logs=(Log("logs/{model}/{precision}/{target}/benchmark.log"),),
    request_model=BenchmarkRequest,
    request=benchmark_request,
    exists=lambda job: job.device_name is not None,
    is_goal=True,
    memory_mb=1200,
    minutes=30,
    more_seconds=lambda job: job.measurement.min_duration_s,
    is_on_device=True,
    is_alone=True,
)
