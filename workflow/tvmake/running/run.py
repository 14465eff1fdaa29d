"""One run of a package, on any device."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.tensor_file import DAMAGE, member, read_array
from tvmake.benchmark.ops import KernelCall, KernelRow, kernel_table
from tvmake.benchmark.statistics import LatencyStatistics, latency_statistics
from tvmake.config.benchmark import Measurement
from tvmake.device.interface import Device, RunRequest, RunResult
from tvmake.device.limits import check_package
from tvmake.errors import DeviceError
from tvmake.running.inputs import write_inputs
from tvmake.storage.temporary import temporary_directory


@dataclass(frozen=True)
class Run:
    """What a run gave."""

    outputs: dict[str, np.ndarray]
    """By their names in the source model."""
    result: RunResult

    @property
    def latency(self) -> LatencyStatistics | None:
        """Of the measured runs; None where nothing was measured."""
        samples = self.result.timing.samples_ms
        return latency_statistics(samples) if samples else None

    @property
    def kernels(self) -> list[KernelRow]:
        """Times by kernel, the most expensive first; none where nothing was profiled."""
        calls = [KernelCall(kernel=op.name, duration_ms=op.ms) for op in self.result.timing.op_runs]
        return kernel_table(calls, len({op.run for op in self.result.timing.op_runs})) if calls else []


def run(
    package: Path,
    manifest: Manifest,
    device: Device,
    inputs: Mapping[str, np.ndarray],
    measurement: Measurement | None = None,
) -> Run:
    """Bring a package to a device unless it is there, and run it once, or as often as a measurement asks.

    Args:
        inputs: all of the package's, as they are (:func:`tvmake.running.inputs.fitting`).

    Raises:
        InputError: the package is damaged.
        DeviceError: the device cannot be reached, or cannot run the package.
    """
    deployment = device.push(package)
    check_package(device.fingerprint(manifest.device_kind), manifest)
    with temporary_directory("tvmake-run-") as directory:
        given, made = Path(directory) / "inputs.npz", Path(directory) / "outputs.npz"
        write_inputs(inputs, given)
        result = device.execute(deployment, RunRequest(samples=1, measurement=measurement), given, made)
        try:
            with zipfile.ZipFile(made) as archive:
                outputs = {
                    spec.name: read_array(archive, member("output", spec.name, 0), spec.dtype)
                    for spec in manifest.signature.outputs
                }
        except DAMAGE as error:
            raise DeviceError(f"device '{device.name}'", f"gave no readable outputs: {error}") from None
    return Run(outputs, result)
