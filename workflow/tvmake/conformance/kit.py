"""Run a device's self-test: every network on every target in every precision.

Whatever a device cannot do becomes an entry of the report. If a network with all questions fails, each question runs
separately, so that a crash of a driver costs one answer.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.config.target import TargetConfig, obstacle
from tvmake.conformance.networks import OPERATORS, PROBES, Network, Question, network
from tvmake.conformance.packages import make_package
from tvmake.conformance.report import Answer, Report, SetName
from tvmake.device.interface import Device
from tvmake.device.limits import check_package
from tvmake.errors import DeviceError, TvmakeError
from tvmake.running.comparison import against_arrays, goals_of
from tvmake.running.run import run
from tvmake.storage.temporary import temporary_directory

PRECISIONS = ("float32", "float16", "float16_acc32")

SETS: Mapping[SetName, tuple[Question, ...]] = {"operators": OPERATORS, "probes": PROBES}

VERSIONS = ("tvmake", "apache-tvm", "apache-tvm-ffi")


@dataclass
class Kit:
    """A self-test in progress.

    Args:
        device: the device under test.
        name, via: its name and transport, for the report.
        targets: the targets by name.
        precisions: the precisions to try.
        sets: the sets of questions.
        progress: called with a line before each part.
    """

    device: Device
    name: str
    via: str
    targets: Mapping[str, TargetConfig]
    precisions: Sequence[str] = PRECISIONS
    sets: Mapping[SetName, tuple[Question, ...]] = field(default_factory=lambda: SETS)
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
        for name, target in self.targets.items():
            for precision in self.precisions:
                for kind in self.sets:
                    self.progress(f"{name}: {kind} in {precision}")
                    answers += self._answers(kind, name, target, precision)
        return Report(
            device=self.name,
            via=self.via,
            versions={name: metadata.version(name) for name in VERSIONS},
            fingerprints=self._fingerprints,
            answers=answers,
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


def _lacks_float16(error: TvmakeError, precision: str) -> bool:
    """Whether a device refuses a package because it does not compute in float16."""
    return precision != "float32" and isinstance(error, DeviceError) and "float16" in error.problem
