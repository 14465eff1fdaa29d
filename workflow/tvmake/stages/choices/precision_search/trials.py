"""Build networks with given precisions of their layers, and run them on the target's device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import BaseModel

from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.signature import Signature
from tvmake.artifact.weights.tensors import load_params, save_params
from tvmake.benchmark.goals import missed_performance
from tvmake.benchmark.precision_choice import MeasuredAssignment
from tvmake.codegen.link import cause
from tvmake.config.benchmark import Measurement
from tvmake.config.requests.building import ExportRequest
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.config.validation import Goals
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, RunRequest
from tvmake.errors import DeviceError, InputError, TvmakeError
from tvmake.process.limits import isolated
from tvmake.quantize.precision import LayerAssignment, precision_of
from tvmake.stages.choices.precision_search.kept import Kept
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.stages.results.validate import compare
from tvmake.storage.files import digest_file
from tvmake.transform.graph import bound_signature, transform
from tvmake.transform.options import TransformRequest
from tvmake.validate.figures import DECIBEL_CAP
from tvmake.validate.numerics import NumericsReport
from tvmake.validate.reference.stored import ReferenceSet

LEAST_ROUNDS, MOST_ROUNDS = 3, 10
"""Minimum and maximum number of interleaved timing rounds of each network. They end when its two best rounds agree."""

AGREE = 0.02
"""Maximum relative difference of two rounds that agree."""

WARMUP, SAMPLES, LEAST_MS = 5, 30, 0.3
"""Of a round: warm-up runs, samples, and minimum duration of a sample in ms. Many short samples, because other load on a machine only
slows a network down: some samples are free of it."""

FILES = ("module.json", "module.params", "signature.json")

NETWORK, BUILDING = "the network", "building it"
"""Names in errors for the subject and the activity."""


@dataclass
class Trial:
    """A network with an assignment of precisions."""

    name: str
    assignment: LayerAssignment
    deployment: Deployment | None = None
    problem: str = ""
    package_bytes: int = 0
    rounds_ms: list[float] = field(default_factory=list)
    measured: MeasuredAssignment | None = None
    """Numerics over all samples, if they were measured."""

    @property
    def latency_ms(self) -> float | None:
        """The smallest of the rounds; None if it was not timed or failed."""
        return min(self.rounds_ms) if self.rounds_ms and not self.problem else None

    @property
    def is_settled(self) -> bool:
        """Whether more rounds are unlikely to find a smaller latency."""
        if len(self.rounds_ms) < LEAST_ROUNDS:
            return False
        first, second, *_ = sorted(self.rounds_ms)
        return second <= (1 + AGREE) * first


class _Built(BaseModel):
    """Stored record of a network's package."""

    network: str
    package_sha256: str


class _Judged(BaseModel):
    """Stored result of running a package on the samples."""

    report: NumericsReport
    fingerprint: Fingerprint


@dataclass(frozen=True)
class _BuildResult:
    """Result of building a network."""

    network: str = ""
    """Digest of its module and parameters."""
    problem: str = ""
    """Why there is no package; empty if there is one."""


class Workbench:
    """Builds networks and runs them on the device. Each network is built once; successful results are stored.

    Failures are not stored: memory may have been short, or the run was being stopped.

    Args:
        directory: directory for intermediate files.
        kept: store for results of this run and of an interrupted one.
        imported, params, signature: the imported network.
        calibration: the ranges of activations; None if nothing may be ``int8``.
        reference: the inputs, and the original model's outputs.
    """

    def __init__(
        self,
        directory: Path,
        kept: Kept,
        imported: Path,
        params: Path,
        signature: Path,
        calibration: Path | None,
        reference: Path | None,
        request: ChoosePrecisionRequest,
    ):
        self._directory = directory
        self._kept = kept
        self._request = request
        self.module, self.params = load_module(imported), load_params(params)
        self._signature = stage_json.load(Signature, signature)
        self.calibration = stage_json.load(Calibration, calibration) if calibration else None
        self.known = ReferenceSet(reference) if reference else None
        self._device = connect(request.device_name, request.device)
        self._built: dict[str, tuple[Deployment, int]] = {}
        self._trials: dict[str, Trial] = {}
        self._pilot: Deployment | None = None
        self._comparisons = 0
        self.fingerprint: Fingerprint | None = None
        self.builds = 0

    def transforming(self, assignment: LayerAssignment) -> TransformRequest:
        """The transform request for an assignment."""
        request = self._request
        precision = precision_of(assignment, request.precision)
        return TransformRequest(precision=precision, transform=request.transform, dims=request.dims)

    def write_network(self, assignment: LayerAssignment, module: Path, params: Path, signature: Path) -> None:
        """Write the transformed network of an assignment.

        Raises:
            InputError: a pass fails, or the network has no multiplication to quantise.
        """
        network, weights = transform(
            self.module, self.params, self.transforming(assignment), self.calibration, assignment.layers
        )
        save_module(network, module)
        save_params(weights, params)
        stage_json.save(bound_signature(self._signature, network), signature)

    def build(self, trial: Trial) -> None:
        """Build a network and push it to the device. If it cannot be built, set its ``problem``.

        It is built in a separate process: a crash of TVM, or lack of memory, affects only this network.
        """
        assigned = trial.assignment.model_dump_json()
        if (known := self._trials.setdefault(assigned, trial)) is not trial:
            trial.deployment, trial.package_bytes, trial.problem = known.deployment, known.package_bytes, known.problem
            return
        try:
            result = self._earlier_result(assigned) or self._build_isolated(trial.assignment)
            trial.problem = result.problem
            if not result.problem:
                if result.network not in self._built:
                    package = self._kept.package(result.network)
                    self._built[result.network] = self._device.push(package), package.stat().st_size
                trial.deployment, trial.package_bytes = self._built[result.network]
                built = _Built(network=result.network, package_sha256=trial.deployment.package_sha256)
                if self._kept.find("built", assigned) != built.model_dump():
                    self._kept.add(built.model_dump(), "built", assigned)
        except InputError as error:
            trial.problem = (
                f"cannot be built: {error.problem if error.where == NETWORK else f'{error.where}: {error.problem}'}"
            )
        except DeviceError as error:
            self._check_device()
            trial.problem = error.problem

    def _earlier_result(self, assigned: str) -> _BuildResult | None:
        """A network that an interrupted run built, if its package is intact."""
        built = self._kept.find_model(_Built, "built", assigned)
        if built is None:
            return None
        package = self._kept.package(built.network)
        is_whole = built.network in self._built or (package.is_file() and digest_file(package) == built.package_sha256)
        return _BuildResult(network=built.network) if is_whole else None

    def _build_isolated(self, assignment: LayerAssignment) -> _BuildResult:
        directory = self._directory / f"trial{self.builds}"
        directory.mkdir()
        self.builds += 1
        return _BuildResult(**json.loads(isolated(lambda: self._pack(assignment, directory), NETWORK, BUILDING, None)))

    def _pack(self, assignment: LayerAssignment, directory: Path) -> bytes:
        """Write a network's package, unless the same network has one; returns a :class:`_BuildResult` as JSON."""
        module, params, signature = (directory / name for name in FILES)
        try:
            self.write_network(assignment, module, params, signature)
            network = digest_file(module) + digest_file(params)
            if network not in self._built:
                lib, manifest, packing = (directory / name for name in ("mod.so", "mod.json", "packing.json"))
                build(module, params, signature, self._request.build, lib, manifest, packing, directory / "sources")
                export(lib, manifest, packing, params, ExportRequest(), self._kept.package(network))
                for file in (lib, module, params):
                    file.unlink()
            result = _BuildResult(network=network)
        except TvmakeError:
            raise
        except Exception as error:  # noqa: BLE001  # any error of TVM's affects only this network
            result = _BuildResult(problem=f"cannot be built: {cause(error)}")
        return json.dumps(asdict(result)).encode()

    def noise(self, trial: Trial, most: int) -> float | None:
        """Noise power at the output relative to the output's power, over ``most`` samples; None if the network does not run."""
        report = self._evaluate(trial, Goals(), most)
        return None if report is None else _noise(report)

    def judge(self, trial: Trial) -> None:
        """Run a network on all samples and judge it by the goals."""
        goals = self._request.goals
        report = self._evaluate(trial, goals.numeric)
        if report is None:
            return
        is_whole = report.overall is not None and not report.overall.nonfinite_mismatches
        trial.measured = MeasuredAssignment(
            name=trial.name,
            assignment=trial.assignment,
            noise=_noise(report),
            sqnr_db=report.overall.sqnr_db if report.overall and is_whole else None,
            missed=[*report.missed, *missed_performance(goals, trial.package_bytes, None)],
        )

    def _evaluate(self, trial: Trial, goals: Goals, most: int | None = None) -> NumericsReport | None:
        if trial.deployment is None or trial.problem or self.known is None:
            return None
        subject = ("judged", trial.deployment.package_sha256, goals.model_dump(mode="json"), most)
        judged = self._kept.find_model(_Judged, *subject)
        if judged is None:
            try:
                with self._device.exclusive():
                    report, fingerprint = compare(self._device, trial.deployment, self.known, goals, most)
            except DeviceError as error:
                self._check_device()
                trial.problem = f"does not run: {error.problem}"
                return None
            judged = _Judged(report=report, fingerprint=fingerprint)
            self._kept.add(json.loads(judged.model_dump_json()), *subject)
        self.fingerprint = judged.fingerprint
        self._pilot = self._pilot or trial.deployment
        return judged.report

    def time(self, trials: Sequence[Trial]) -> None:
        """Time networks in interleaved rounds, every other round in reverse, so that a slowdown of the machine affects all of them.

        Identical networks are timed once. Only whole rounds are stored: an interrupted round is timed again for all networks, since
        the machine's state affects all of them.
        """
        by_package: dict[str, list[Trial]] = {}
        for trial in trials:
            if trial.deployment is not None and not trial.problem:
                by_package.setdefault(trial.deployment.package_sha256, []).append(trial)
        measurement = Measurement(
            warmup=WARMUP, repeat=SAMPLES, min_repeat_ms=LEAST_MS, cooldown_s=self._request.cooldown_s
        )
        run = RunRequest(samples=1, want_outputs=False, measurement=measurement, wants_memory=False)
        self._comparisons += 1
        for number in range(MOST_ROUNDS):
            open_groups = {
                sha: same for sha, same in by_package.items() if not same[0].problem and not same[0].is_settled
            }
            if not open_groups:
                return
            subject = ("round", self._comparisons, number, sorted(by_package))
            known = self._kept.find(*subject)
            if known is not None and known.keys() == open_groups.keys():
                for sha, same in open_groups.items():
                    for trial in same:
                        trial.rounds_ms.append(known[sha])
                continue
            with self._device.exclusive():
                for same in list(open_groups.values())[:: 1 if number % 2 == 0 else -1]:
                    self._time_once(same, run)
            if not any(same[0].problem for same in open_groups.values()):
                self._kept.add({sha: same[0].rounds_ms[-1] for sha, same in open_groups.items()}, *subject)

    def _time_once(self, same: Sequence[Trial], run: RunRequest) -> None:
        """Time one round of networks with the same package."""
        assert self.known is not None
        assert same[0].deployment is not None
        try:
            result = self._device.execute(same[0].deployment, run, self.known.path, None)
        except DeviceError as error:
            self._check_device()
            for trial in same:
                trial.problem = f"does not run: {error.problem}"
            return
        for trial in same:
            trial.rounds_ms.append(min(result.timing.samples_ms))

    def _check_device(self) -> None:
        """Check whether the device fails, rather than a network, by running a network that ran before.

        Raises:
            DeviceError: it fails too.
        """
        if self._pilot is not None and self.known is not None:
            self._device.execute(self._pilot, RunRequest(samples=1, want_outputs=False), self.known.path, None)


def _noise(report: NumericsReport) -> float | None:
    """Noise power at the output relative to the output's; the maximum if the output has NaN or infinities that the
    reference does not have, which the report's figures exclude."""
    if report.overall is None:
        return None
    return 10 ** ((DECIBEL_CAP if report.overall.nonfinite_mismatches else -report.overall.sqnr_db) / 10)


def figures_of(trial: Trial, predictions: Mapping[str, tuple[float, float]]) -> MeasuredAssignment:
    """Measurements and predictions of a network.

    Args:
        predictions: latency in ms and noise, by name.
    """
    known = trial.measured or MeasuredAssignment(name=trial.name, assignment=trial.assignment)
    predicted_ms, predicted_noise = predictions.get(trial.name, (None, None))
    return known.model_copy(
        update={
            "latency_ms": trial.latency_ms,
            "rounds_ms": trial.rounds_ms,
            "predicted_ms": predicted_ms,
            "predicted_noise": predicted_noise,
            "problem": trial.problem,
        }
    )
