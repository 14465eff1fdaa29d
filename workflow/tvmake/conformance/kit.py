"""Run a device's self-test: every network on every target in every precision, and the rates.

Whatever a device cannot do becomes an entry of the report. If a network with all questions fails, each question runs
separately, so that a crash of a driver costs one answer.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median

import numpy as np

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.config.benchmark import Measurement
from tvmake.config.target import TargetConfig, obstacle
from tvmake.conformance.networks import OPERATORS, PROBES, Network, Question, network
from tvmake.conformance.packages import make_package
from tvmake.conformance.rates import LEAST_MS, SIZES, Rate, bandwidth, compute
from tvmake.conformance.report import Answer, Drift, Report, SetName, Speed
from tvmake.device.interface import Device
from tvmake.device.limits import check_package
from tvmake.errors import DeviceError, TvmakeError
from tvmake.running.comparison import against_arrays, goals_of
from tvmake.running.run import run
from tvmake.storage.temporary import temporary_directory

PRECISIONS = ("float32", "float16", "float16_acc32")

SETS: Mapping[SetName, tuple[Question, ...]] = {"operators": OPERATORS, "probes": PROBES}

VERSIONS = ("tvmake", "apache-tvm", "apache-tvm-ffi")

QUICK = Measurement(warmup=2, repeat=5)


@dataclass(frozen=True)
class Extent:
    """How much is done.

    Attributes:
        precisions: which to try.
        megabytes: of the tensor that is copied for the bandwidth.
        sizes: rows of the matrices that are multiplied, the smaller first.
        rounds: measured one after the other for the drift; 0 leaves it out.
    """

    precisions: tuple[str, ...] = PRECISIONS
    megabytes: int = 16
    sizes: tuple[int, ...] = SIZES
    rounds: int = 16


@dataclass
class Kit:
    """A self-test in progress.

    Args:
        device: the device under test.
        name, via: its name and transport, for the report.
        targets: the targets by name.
        sets: the sets of questions.
        readings: returns the device's current temperatures and limits.
        progress: called with a line before each part.
    """

    device: Device
    name: str
    via: str
    targets: Mapping[str, TargetConfig]
    extent: Extent = Extent()
    sets: Mapping[SetName, tuple[Question, ...]] = field(default_factory=lambda: SETS)
    readings: Callable[[], dict[str, str]] = dict
    progress: Callable[[str], None] = print
    _fingerprints: dict[str, Fingerprint] = field(default_factory=dict)

    def report(self) -> Report:
        """Run everything.

        Raises:
            DeviceError: the device cannot be reached at all.
        """
        began = time.monotonic()
        self._fingerprints["cpu"] = self.device.fingerprint("cpu")
        answers: list[Answer] = []
        speeds: list[Speed] = []
        drift: list[Drift] = []
        for name, target in self.targets.items():
            for precision in self.extent.precisions:
                for kind in self.sets:
                    self.progress(f"{name}: {kind} in {precision}")
                    answers += self._answers(kind, name, target, precision)
            self.progress(f"{name}: memory bandwidth and matmuls")
            speeds.append(self._speed(bandwidth(self.extent.megabytes), name, target))
            rate, speed = self._product(name, target)
            speeds.append(speed)
            if self.extent.rounds and speed.value is not None:
                self.progress(f"{name}: drift over {self.extent.rounds} rounds")
                drift.append(self._drift(rate, name, target))
        return Report(
            device=self.name,
            via=self.via,
            versions={name: metadata.version(name) for name in VERSIONS},
            fingerprints=self._fingerprints,
            answers=answers,
            speeds=speeds,
            drift=drift,
            seconds=round(time.monotonic() - began, 1),
        )

    def _answers(self, kind: SetName, name: str, target: TargetConfig, precision: str) -> list[Answer]:
        questions = self.sets[kind]
        if problem := obstacle(target, precision):
            return [_unanswered(kind, question, name, precision, problem, is_fault=False) for question in questions]
        try:
            return list(self._ask(kind, questions, name, target, precision))
        except TvmakeError as error:
            if _lacks_float16(error, precision):
                return [
                    _unanswered(kind, question, name, precision, error.problem, is_fault=False)
                    for question in questions
                ]
        answers: list[Answer] = []
        for question in questions:
            try:
                answers += self._ask(kind, [question], name, target, precision)
            except TvmakeError as error:
                answers.append(_unanswered(kind, question, name, precision, error.problem, is_fault=True))
        return answers

    def _ask(
        self,
        kind: SetName,
        questions: Sequence[Question],
        name: str,
        target: TargetConfig,
        precision: str,
    ) -> Iterator[Answer]:
        probe = network(questions)
        with temporary_directory("tvmake-selftest-") as directory:
            package, manifest = make_package(probe, precision, target, name, Path(directory))
            got = run(package, manifest, self._known(manifest), _inputs_for(probe, manifest)).outputs
        goals = goals_of(precision, {"cosine": None})
        in_images = bool(manifest.placement and manifest.placement.image_kernels)
        for question in questions:
            expected = probe.expected[question.name]
            verdict = against_arrays({question.name: got[question.name]}, {question.name: expected}, goals)
            figures = verdict.overall
            yield Answer(
                set=kind,
                name=question.name,
                target=name,
                precision=precision,
                verdict="ok" if verdict.passed else "wrong",
                sqnr_db=round(figures.sqnr_db, 1) if figures else None,
                max_abs_rms=float(f"{figures.max_abs_rms:.2g}") if figures else None,
                in_images=in_images,
                problem="" if verdict.passed else question.purpose,
            )

    def _known(self, manifest: Manifest) -> Device:
        """The device, once it is known who it is for the manifest's kind of kernels, and that it can run them."""
        kind = manifest.device_kind
        if kind not in self._fingerprints:
            self._fingerprints[kind] = self.device.fingerprint(kind)
        check_package(self._fingerprints[kind], manifest)
        return self.device

    def _speed(self, rate: Rate, name: str, target: TargetConfig) -> Speed:
        try:
            samples = next(self._measure(rate, name, target, 1))
        except TvmakeError as error:
            return Speed(name=rate.name, target=name, unit=rate.unit, value=None, problem=error.problem)
        return Speed(name=rate.name, target=name, unit=rate.unit, value=_round(median(samples)), samples=samples)

    def _product(self, name: str, target: TargetConfig) -> tuple[Rate, Speed]:
        """The smallest matmul that takes long enough to be timed."""
        for size in self.extent.sizes:
            rate = compute(size)
            speed = self._speed(rate, name, target)
            if speed.value is None or rate.work / speed.value / 1e6 >= LEAST_MS:
                break
        return rate, speed

    def _drift(self, rate: Rate, name: str, target: TargetConfig) -> Drift:
        """The same work again and again; the device is not left to cool down in between."""
        before = self.readings()
        rounds = [_round(median(samples)) for samples in self._measure(rate, name, target, self.extent.rounds)]
        quarter = max(1, len(rounds) // 4)
        first, last = median(rounds[:quarter]), median(rounds[-quarter:])
        return Drift(
            target=name, rounds=rounds, change=round(last / first - 1, 3), before=before, after=self.readings()
        )

    def _measure(self, rate: Rate, name: str, target: TargetConfig, rounds: int) -> Iterator[list[float]]:
        """Rates in the rate's unit, a list for each round."""
        with temporary_directory("tvmake-selftest-") as directory:
            package, manifest = make_package(rate.network, "float32", target, name, Path(directory))
            inputs = _inputs_for(rate.network, manifest)
            for _ in range(rounds):
                timing = run(package, manifest, self._known(manifest), inputs, QUICK).result.timing
                yield [_round(rate.work / (ms * 1e-3) / 1e9) for ms in timing.samples_ms]


def _unanswered(kind: SetName, question: Question, target: str, precision: str, problem: str, is_fault: bool) -> Answer:
    return Answer(
        set=kind,
        name=question.name,
        target=target,
        precision=precision,
        verdict="failed" if is_fault else "not there",
        problem=problem,
    )


def _inputs_for(probe: Network, manifest: Manifest) -> dict[str, np.ndarray]:
    """A network's inputs, with the names and types of the package."""
    return {spec.name: probe.inputs[spec.name].astype(spec.dtype) for spec in manifest.signature.inputs}


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _lacks_float16(error: TvmakeError, precision: str) -> bool:
    """Whether a device refuses a package because it does not compute in float16."""
    return precision != "float32" and isinstance(error, DeviceError) and "float16" in error.problem
