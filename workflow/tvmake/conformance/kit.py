"""Run a device's self-test: every network on every target in every precision.

Whatever a device cannot do becomes an entry of the report. If a network with all questions fails, each question runs
separately, so that a crash of a driver costs one answer.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import cast

import numpy as np

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import read_manifest
from tvmake.config.requests.building import BuildRequest, ExportRequest
from tvmake.config.target import TargetConfig, obstacle
from tvmake.conformance.networks import OPERATORS, PROBES, Network, Question, network
from tvmake.conformance.report import Answer, Report, SetName
from tvmake.device.interface import Device
from tvmake.device.limits import IMAGES, check_package
from tvmake.errors import DeviceError, TvmakeError, UsageError
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import BasePrecision, PrecisionConfig
from tvmake.running.comparison import against_arrays, goals_of
from tvmake.running.run import run
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.storage.temporary import temporary_directory
from tvmake.transform.options import TransformRequest

PRECISIONS = ("float32", "float16", "float16_acc32")

SETS: Mapping[SetName, tuple[Question, ...]] = {"operators": OPERATORS, "probes": PROBES}

TEXTURES, BUFFERS = "adreno-texture", "adreno-buffer"
"""Their schedules and work-arounds are for Adreno; any OpenCL driver with images runs the code."""

VERSIONS = ("tvmake", "apache-tvm", "apache-tvm-ffi")


@dataclass
class Kit:
    """A self-test in progress.

    Args:
        name, via: its name and transport, for the report.
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
            return [_missing_answer(kind, question, name, precision, problem, is_fault=False) for question in questions]
        try:
            return list(self._ask(kind, questions, name, target, precision))
        except TvmakeError as error:
            if _lacks_float16(error, precision):
                return [
                    _missing_answer(kind, question, name, precision, error.problem, is_fault=False)
                    for question in questions
                ]
        answers: list[Answer] = []
        for question in questions:
            try:
                answers += self._ask(kind, [question], name, target, precision)
            except TvmakeError as error:
                answers.append(_missing_answer(kind, question, name, precision, error.problem, is_fault=True))
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
            got = run(package, manifest, self._identified_device(manifest), [_inputs_for(probe, manifest)]).outputs
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

    def _identified_device(self, manifest: Manifest) -> Device:
        """The device, once it is known who it is for the manifest's kind of kernels, and that it can run them."""
        kind = manifest.device_kind
        if kind not in self._fingerprints:
            self._fingerprints[kind] = self.device.fingerprint(kind)
        check_package(self._fingerprints[kind], manifest)
        return self.device


def _missing_answer(
    kind: SetName, question: Question, target: str, precision: str, problem: str, is_fault: bool
) -> Answer:
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


def make_package(
    network: Network, precision: str, target: TargetConfig, target_name: str, directory: Path
) -> tuple[Path, Manifest]:
    """Write a network's package into an empty directory.

    Raises:
        InputError: TVM cannot generate code of this precision for the target.
        MachineError: there is no linker for it.
    """
    model = directory / "selftest.onnx"
    model.write_bytes(network.model)
    imported, detached, described, source = (
        directory / f"imported.{name}" for name in ("json", "params", "io", "source")
    )
    import_model(ImportOptions(source=str(model)), imported, detached, described, source)
    module, params, signature = (directory / f"module.{name}" for name in ("json", "params", "signature"))
    transformed = TransformRequest(precision=PrecisionConfig(base=cast(BasePrecision, precision)))
    transform_model(imported, detached, described, transformed, module, params, signature)
    request = BuildRequest(model="selftest", precision=precision, target_name=target_name, target=target)
    lib, manifest, packing = (directory / name for name in ("mod.so", "mod.json", "packing.json"))
    build(module, params, signature, request, lib, manifest, packing, directory / "sources")
    package = directory / "package.tar"
    export(lib, manifest, packing, params, ExportRequest(), package)
    return package, read_manifest(manifest.read_bytes(), str(package))


def default_targets(device: Device, is_here: bool) -> dict[str, TargetConfig]:
    """The CPU, and the GPU with buffers and with textures if its OpenCL driver has images.

    Raises:
        DeviceError: it cannot be reached.
        UsageError: the device's processor is unknown.
    """
    host = "" if is_here else _triple(device.fingerprint("cpu"))
    if host is None:
        problem = "its processor is unknown, as for all devices behind RPC servers"
        remedy = "name the target: --target 'llvm -mtriple=aarch64-linux-gnu'"
        raise UsageError(f"device '{device.name}'", problem, remedy)
    values: dict[str, dict[str, object]] = {"cpu": {"kind": "llvm", "mtriple": host} if host else {"kind": "llvm"}}
    try:
        gpu = device.fingerprint("opencl")
    except TvmakeError:
        gpu = None
    if gpu is not None:
        on_host = {"host": host} if host else {}
        values["opencl-buffer"] = {"tag": BUFFERS, **on_host}
        if gpu.details.get(IMAGES, "none") != "none":
            values["opencl-texture"] = {"tag": TEXTURES, **on_host}
    return {name: TargetConfig.model_validate(value) for name, value in values.items()}


def _triple(fingerprint: Fingerprint) -> str | None:
    """The system of a device's CPU; None if unknown."""
    machine = fingerprint.details.get("machine", "")
    if not machine:
        return None
    return f"{machine}-linux-{'android' if 'android' in fingerprint.os.lower() else 'gnu'}"
