"""Run a package on the samples of a file, independent of how it is loaded."""

import time
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import numpy as np

from tvmake.artifact.extents import check_extents
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import Signature
from tvmake.artifact.tensor_file import DAMAGE, member, read_array, write_array
from tvmake.device.code import check_outputs, checking_arguments
from tvmake.device.interface import RunRequest
from tvmake.errors import InputError

GIVEN = "inputs"
"""The subject of errors about inputs, here and in the native runner."""

REMEDY = "recompute the reference for this package: `tvmake make --forcerun reference`"


class Package(Protocol):
    """A package's virtual machine with its parameters loaded."""

    def set_inputs(self, inputs: list[np.ndarray]) -> None:
        """Set the arguments of ``main`` for all following runs."""
        ...

    def run(self) -> None:
        """Run ``main`` on the current inputs."""
        ...

    def outputs(self) -> list[np.ndarray]:
        """The last run's outputs, in signature order."""
        ...

    def advance(self) -> None:
        """Keep the states that the last run gave, for the inputs that are set next."""
        ...

    def reset(self) -> None:
        """Restart the states, for the inputs that are set next."""
        ...


def run_samples(package: Package, manifest: Manifest, request: RunRequest, inputs: Path, outputs: Path | None) -> float:
    """Run the requested samples; afterwards the first sample's inputs are set again, with states at their beginning.

    Args:
        outputs: the file for outputs; None to drop them.

    Returns:
        The duration of the first run in ms, until its outputs are here.

    Raises:
        InputError: the inputs do not match the signature, or the code does not match its manifest.
    """
    with ExitStack() as stack:
        stack.enter_context(checking_arguments())
        samples = stack.enter_context(zipfile.ZipFile(inputs))
        results = stack.enter_context(zipfile.ZipFile(outputs, "w", zipfile.ZIP_STORED)) if outputs else None
        first = _inputs(samples, 0, manifest.signature)
        package.set_inputs(first)
        started = time.perf_counter()
        package.run()
        values = _outputs(package, manifest)
        first_run_ms = since(started)
        for number in range(1, request.samples + 1):
            if results is not None:
                _collect(results, manifest, number - 1, values)
            if number < request.samples:
                if request.steps and number % request.steps == 0:
                    package.reset()
                else:
                    package.advance()
                package.set_inputs(_inputs(samples, number, manifest.signature))
                package.run()
                values = _outputs(package, manifest)
        package.reset()
        package.set_inputs(first)
        if request.repeat_first and results is not None:
            package.run()
            _collect(results, manifest, request.samples, _outputs(package, manifest))
    return first_run_ms


def time_steps(
    package: Package, manifest: Manifest, inputs: Path, steps: int, timed_run: Callable[[], float]
) -> list[float]:
    """Run the first samples as one sequence, from the states' beginning; afterwards as :func:`run_samples`.

    Args:
        timed_run: runs the package until the device has finished, and returns the time in ms.

    Returns:
        The time of each run in ms, without copies of inputs and outputs.
    """
    times_ms: list[float] = []
    with checking_arguments(), zipfile.ZipFile(inputs) as samples:
        for number in range(steps):
            package.set_inputs(_inputs(samples, number, manifest.signature))
            times_ms.append(timed_run())
            package.advance()
        package.reset()
        package.set_inputs(_inputs(samples, 0, manifest.signature))
    return times_ms


def since(started: float) -> float:
    """Milliseconds since ``time.perf_counter`` returned ``started``."""
    return (time.perf_counter() - started) * 1000


def _outputs(package: Package, manifest: Manifest) -> list[np.ndarray]:
    values = package.outputs()
    check_outputs(values, manifest)
    return values


def _collect(results: zipfile.ZipFile, manifest: Manifest, number: int, values: list[np.ndarray]) -> None:
    for spec, value in zip(manifest.signature.outputs, values, strict=True):
        write_array(results, member("output", spec.name, number), value)


def _inputs(samples: zipfile.ZipFile, number: int, signature: Signature) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    for spec in signature.inputs:
        try:
            value = read_array(samples, member("input", spec.name, number), spec.dtype)
        except KeyError:
            raise InputError(GIVEN, f"sample {number} lacks input '{spec.name}'", REMEDY) from None
        except DAMAGE as error:
            raise InputError(
                GIVEN, f"input '{spec.name}' of sample {number} cannot be read ({error})", REMEDY
            ) from None
        fits = len(value.shape) == len(spec.shape) and all(
            isinstance(want, str) or got == want for got, want in zip(value.shape, spec.shape, strict=True)
        )
        if not fits or str(value.dtype) != spec.dtype:
            problem = f"input '{spec.name}' is {value.dtype}{list(value.shape)}, the package takes {spec.dtype}{list(spec.shape)}"
            raise InputError(GIVEN, problem, REMEDY)
        values.append(np.asarray(value, order="C"))
    try:
        check_extents(signature, {spec.name: value.shape for spec, value in zip(signature.inputs, values, strict=True)})
    except InputError as error:
        raise InputError(GIVEN, f"sample {number}: {error.problem}", REMEDY) from None
    return values
