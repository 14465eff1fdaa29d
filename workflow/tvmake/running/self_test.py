"""A package's self-test: its samples, run on any device, compared with the original framework's outputs."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tvmake.artifact.manifest import Manifest, SelfTest
from tvmake.artifact.package import SELF_TEST
from tvmake.artifact.signature import TensorSpec
from tvmake.artifact.tensor_file import DAMAGE, check_stored, member, read_array, reason
from tvmake.config.validation import Goals
from tvmake.device import store
from tvmake.device.interface import Device, RunRequest
from tvmake.device.limits import check_package
from tvmake.device.samples import GIVEN
from tvmake.errors import DeviceError, InputError
from tvmake.storage.temporary import temporary_directory
from tvmake.validate.figures import OutputFigures
from tvmake.validate.numerics import Comparison, Outputs
from tvmake.validate.verdict import MissedGoal, is_discrete

MAKE_ONE = "rebuild it with `export.self_test` in the config, or `tvmake compile --self-test`"


@dataclass(frozen=True)
class Checked:
    """The comparison of one output of one sample; ``figures`` is None if the outputs could not be compared."""

    sample: int
    output: str
    figures: OutputFigures | None
    missed: list[MissedGoal]

    @property
    def is_discrete(self) -> bool:
        """Whether the output is judged by equality."""
        return self.figures is not None and is_discrete(self.figures)


def self_test_of(manifest: Manifest, where: str) -> SelfTest:
    """A package's self-test.

    Raises:
        InputError: it has no samples or no bounds, or bounds that are unknown to this version of tvmake.
    """
    described = manifest.self_test
    if described is None:
        raise InputError(where, "has no self-test", MAKE_ONE)
    if not described.samples:
        why_not = f": {described.why_not}" if described.why_not else ""
        raise InputError(where, f"has no self-test{why_not}", MAKE_ONE)
    if not described.goals:
        raise InputError(where, "has no self-test: it has no bounds, so any output would pass", MAKE_ONE)
    try:
        Goals.model_validate(described.goals)
    except ValidationError as error:
        goal = ".".join(str(part) for part in error.errors()[0]["loc"])
        problem = f"its self-test has a goal that this tvmake does not know: {goal}"
        raise InputError(where, problem, "use the tvmake that built it") from None
    return described


def run_self_test(package: Path, manifest: Manifest, device: Device) -> list[Checked]:
    """Run a package's samples on a device, and compare the outputs.

    Raises:
        InputError: the package is damaged, or has no samples.
        DeviceError: the device cannot be reached, or cannot run the package.
    """
    described = self_test_of(manifest, str(package))
    deployment = device.push(package)
    check_package(device.fingerprint(manifest.device_kind), manifest)
    samples = store.store_root() / deployment.package_sha256 / SELF_TEST
    _check_samples(samples, str(package))
    with temporary_directory("tvmake-self-test-") as directory:
        outputs_file = Path(directory) / "outputs.npz"
        try:
            device.execute(deployment, RunRequest(samples=described.samples), samples, outputs_file)
        except InputError as error:
            if error.where != GIVEN:
                raise
            raise InputError(str(package), f"{SELF_TEST} does not match: {error.problem}", MAKE_ONE) from None
        try:
            got = zipfile.ZipFile(outputs_file)
        except DAMAGE as error:
            raise DeviceError(f"device '{device.name}'", f"returned no readable outputs: {error}") from None
        with got, zipfile.ZipFile(samples) as expected:
            return list(check_self_test(described, manifest.signature.outputs, expected, got))


def _check_samples(samples: Path, where: str) -> None:
    try:
        with zipfile.ZipFile(samples) as archive:
            check_stored(archive)
    except DAMAGE as error:
        raise InputError(where, f"{SELF_TEST} was not written by tvmake: {reason(error)}", MAKE_ONE) from None


def check_self_test(
    described: SelfTest, outputs: Sequence[TensorSpec], expected: zipfile.ZipFile, got: zipfile.ZipFile
) -> Iterator[Checked]:
    """Judge each output of each sample by the package's goals.

    Args:
        expected: the package's samples.
        got: the device's outputs.

    Raises:
        InputError: the samples or outputs cannot be read.
    """
    goals = Goals.model_validate(described.goals)
    for number in range(described.samples):
        for spec in outputs:
            yield _check_output(number, spec.name, goals, _output(expected, spec, number), _output(got, spec, number))


def _check_output(number: int, name: str, goals: Goals, expected: Outputs, got: Outputs) -> Checked:
    comparison = Comparison(goals)
    comparison.add(expected, got)
    report = comparison.report()
    return Checked(number, name, next(iter(report.outputs), None), report.missed)


def _output(archive: zipfile.ZipFile, spec: TensorSpec, number: int) -> Outputs:
    try:
        return {spec.name: read_array(archive, member("output", spec.name, number), spec.dtype)}
    except KeyError:
        raise InputError("self-test", f"sample {number} lacks output '{spec.name}'", MAKE_ONE) from None
    except DAMAGE as error:
        raise InputError(
            "self-test", f"output '{spec.name}' of sample {number} cannot be read: {reason(error)}"
        ) from None
