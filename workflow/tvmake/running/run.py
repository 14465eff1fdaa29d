"""Run a package once, on any device."""

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
from tvmake.storage.temporary import temporary_directory
from tvmake.validate.samples import write_inputs


@dataclass(frozen=True)
class Run:
    """The results of a run."""

    outputs: dict[str, np.ndarray]
    """Outputs by their names in the source model."""
    result: RunResult

    @property
    def latency(self) -> LatencyStatistics | None:
        """Statistics of the measured runs; None without a measurement."""
        samples = self.result.timing.samples_ms
        return latency_statistics(samples) if samples else None

    @property
    def kernels(self) -> list[KernelRow]:
        """Times by kernel, the most expensive first; empty without profiling."""
        calls = [KernelCall(kernel=op.name, duration_ms=op.ms) for op in self.result.timing.op_runs]
        return kernel_table(calls, len({op.run for op in self.result.timing.op_runs})) if calls else []


def run(
    package: Path,
    manifest: Manifest,
    device: Device,
    inputs: Mapping[str, np.ndarray],
    measurement: Measurement | None = None,
) -> Run:
    """Copy a package to a device if necessary, and run it once, or as often as a measurement requires.

    Args:
        inputs: all inputs of the package, with their exact types (:func:`tvmake.running.inputs.match_inputs`).

    Raises:
        InputError: the package is damaged.
        DeviceError: the device cannot be reached, or cannot run the package.
    """
    deployment = device.push(package)
    check_package(device.fingerprint(manifest.device_kind), manifest)
    with temporary_directory("tvmake-run-") as directory:
        inputs_file, outputs_file = Path(directory) / "inputs.npz", Path(directory) / "outputs.npz"
        write_inputs(inputs, inputs_file)
        result = device.execute(deployment, RunRequest(samples=1, measurement=measurement), inputs_file, outputs_file)
        try:
            with zipfile.ZipFile(outputs_file) as archive:
                outputs = {
                    spec.name: read_array(archive, member("output", spec.name, 0), spec.dtype)
                    for spec in manifest.signature.outputs
                }
        except DAMAGE as error:
            raise DeviceError(f"device '{device.name}'", f"returned no readable outputs: {error}") from None
    return Run(outputs, result)
