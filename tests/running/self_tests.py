"""Packages with samples to test themselves by, of nets whose framework gives the expected outputs."""

import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from tests.codegen.conftest import Transformed
from tests.native.devices import package_for
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, MANIFEST, unpack
from tvmake.config.export import SelfTest
from tvmake.config.requests.building import ExportRequest
from tvmake.config.requests.referencing import SelfTestRequest
from tvmake.config.validation import DEFAULT_GOALS
from tvmake.frontend.options import ImportOptions
from tvmake.provenance.statement import with_files
from tvmake.stages.package.contents import self_test_goals
from tvmake.stages.package.export import export
from tvmake.stages.package.self_test import self_test
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSet, write_reference_set

GOALS = self_test_goals(DEFAULT_GOALS["float32"], DEFAULT_GOALS["float32"])


def samples_of(net: Transformed, file: Path, dims: dict[str, int] | None = None, test: SelfTest | None = None) -> Path:
    """What ONNX Runtime makes of two random inputs."""
    directory = net.module.parent
    options = ImportOptions(source=str(directory / "net.onnx"))
    request = SelfTestRequest(model=options, dims=dims or {}, self_test=test or SelfTest())
    self_test(directory / "signature.json", directory / "source.json", request, file)
    return file


def altered(known: Path, file: Path, factor: float = 1.5) -> Path:
    """A reference set that expects other outputs."""
    samples = ReferenceSet(known)
    altered_samples = (
        ReferenceSample(sample.inputs, {name: np.asarray(value * factor, value.dtype) for name, value in sample.outputs.items()}, None)
        for sample in samples
    )  # fmt: skip
    write_reference_set(file, samples.info, altered_samples)
    return file


def package_with_samples(
    net: Transformed,
    directory: Path,
    expected: Path | None,
    goals: dict[str, float] = GOALS,
    why_not: str = "",
) -> Path:
    """A package that is exported with these samples."""
    directory.mkdir(parents=True, exist_ok=True)
    built = _built(net)
    package = directory / "package.tar"
    request = ExportRequest(goals=goals, why_not=why_not)
    export(built / LIBRARY, built / MANIFEST, built / "packing.json", net.params, request, package, expected)
    return package


@cache
def _built(net: Transformed) -> Path:
    return package_for(net, net.module.parent / "built")


def _with_output(manifest: Manifest, **update: object) -> dict[str, object]:
    (known,) = manifest.signature.outputs
    return {"signature": manifest.signature.model_copy(update={"outputs": (known.model_copy(update=update),)})}


def _with_another_output(manifest: Manifest) -> dict[str, object]:
    (known,) = manifest.signature.outputs
    outputs = (known, known.model_copy(update={"name": "more"}))
    return {"signature": manifest.signature.model_copy(update={"outputs": outputs})}


def _with_another_argument(manifest: Manifest) -> dict[str, object]:
    (known,) = manifest.signature.inputs
    inputs = (known.model_copy(update={"relax_name": "other"}),)
    return {"signature": manifest.signature.model_copy(update={"inputs": inputs})}


OTHER_CODE: list[tuple[Callable[[Manifest], dict[str, object]], str]] = [
    (_with_another_output, "mod.so gives 1 output, its manifest declares 2"),
    (lambda it: _with_output(it, dtype="float16"), "mod.so gives 'y' as float32[1, 6], its manifest declares float16[1, 6]"),
    (lambda it: _with_output(it, shape=(6,)), "mod.so gives 'y' as float32[1, 6], its manifest declares float32[6]"),
    (lambda it: {"parameters": it.parameters[1:]}, "mod.so takes 2 arguments, its manifest declares 1"),
    (lambda it: {"parameters": it.parameters * 2}, "mod.so takes 2 arguments, its manifest declares 3"),
    (_with_another_argument, "mod.so takes 'x' as argument 0, its manifest declares 'other'"),
]  # fmt: skip
"""What a manifest that was written for other code says, and what is said of it."""


def rewritten(package: Path, directory: Path, manifest: Manifest) -> None:
    """Unpack a package with another manifest, sealed again."""
    directory.mkdir()
    unpack(package, directory)
    stage_json.save(manifest.sealed(), directory / MANIFEST)


def cut_to_half(package: Path, directory: Path, name: str) -> None:
    """Unpack a package, and cut one of its files, with a manifest that says so."""
    directory.mkdir()
    manifest = unpack(package, directory)
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content[: len(content) // 2])
    stage_json.save(with_files(manifest, {name: directory / name}).sealed(), directory / MANIFEST)


def arrays(file: Path) -> dict[str, np.ndarray]:
    """The members of an archive."""
    with zipfile.ZipFile(file) as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    with np.load(file) as loaded:
        return {name: loaded[name] for name in loaded.files}
