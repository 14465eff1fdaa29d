"""Run a package once, or for several steps, on any device."""

import zipfile
from collections.abc import Mapping, Sequence
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

    steps: list[dict[str, np.ndarray]]
    """The outputs of each step, by their names in the source model."""
    result: RunResult

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """Outputs by their names in the source model; those of several steps together, with the steps as first axis.

        An output whose shape changes from step to step is the last step's.
        """
        (*_, last) = self.steps
        if len(self.steps) == 1:
            return last
        together = {name: [step[name] for step in self.steps] for name in last}
        return {
            name: np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays[-1]
            for name, arrays in together.items()
        }

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
    steps: Sequence[Mapping[str, np.ndarray]],
    measurement: Measurement | None = None,
) -> Run:
    """Copy a package to a device if necessary, and run it once for each step, the first as often as a measurement requires.

    Args:
        steps: all inputs of the package, with their exact types (:func:`tvmake.running.inputs.match_inputs`), for each step; states
            continue from step to step.

    Raises:
        InputError: the package is damaged.
        DeviceError: the device cannot be reached, or cannot run the package.
    """
    deployment = device.push(package)
    check_package(device.fingerprint(manifest.device_kind), manifest)
    with temporary_directory("tvmake-run-") as directory:
        inputs_file, outputs_file = Path(directory) / "inputs.npz", Path(directory) / "outputs.npz"
        write_inputs(inputs_file, *steps)
        request = RunRequest(samples=len(steps), measurement=measurement)
        result = device.execute(deployment, request, inputs_file, outputs_file)
        try:
            with zipfile.ZipFile(outputs_file) as archive:
                outputs = [
                    {
                        spec.name: read_array(archive, member("output", spec.name, number), spec.dtype)
                        for spec in manifest.signature.outputs
                    }
                    for number in range(len(steps))
                ]
        except DAMAGE as error:
            raise DeviceError(f"device '{device.name}'", f"returned no readable outputs: {error}") from None
    return Run(outputs, result)
