"""Benchmark: time a deployed package, alone on its device."""

import os
from collections.abc import Mapping
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.benchmark.ops import KernelCall, kernel_table
from tvmake.benchmark.result import Condition, Latency, LatencyReport, latency_report
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest, Timing


def benchmark(package: Path, inputs: Path, request: BenchmarkRequest, latency: Path) -> LatencyReport:
    """Time a package on the first sample of ``inputs`` and write ``latency``.

    Raises:
        InputError: the package or the inputs are damaged.
        DeviceError: the run crashed, took too long, or the device was lost.
    """
    device = connect(request.device_name, request.device)
    deployment = device.push(package)
    asked = RunRequest(samples=1, want_outputs=False, measurement=request.measurement)
    with device.alone():
        here = {"load_average_1m": round(os.getloadavg()[0], 2)} if request.device.via == "local" else {}
        result = device.execute(deployment, asked, inputs, None)
    report = _report(request, result.timing, {**here, **result.timing.conditions})
    written = Latency(
        report=report,
        package_sha256=deployment.package_sha256,
        baseline_memory_bytes=result.timing.baseline_memory_bytes,
        fingerprint=result.fingerprint,
    )
    stage_json.save(written, latency)
    return report


def _report(request: BenchmarkRequest, timing: Timing, conditions: Mapping[str, Condition]) -> LatencyReport:
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
