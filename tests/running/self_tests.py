"""Packages with samples to test themselves by, of nets whose framework gives the expected outputs."""

import zipfile
from pathlib import Path

import numpy as np

from tests.codegen.conftest import Transformed
from tests.native.devices import package_for
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS
from tvmake.config.export import SelfTest
from tvmake.config.model import ImportOptions
from tvmake.config.requests.building import ExportRequest
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.config.validation import DEFAULT_GOALS, Goals
from tvmake.stages.export import export
from tvmake.stages.reference import reference
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSet, write_reference_set

GOALS = DEFAULT_GOALS["float32"]


def reference_of(net: Transformed, file: Path, dims: dict[str, int] | None = None) -> Path:
    """What ONNX Runtime makes of three random inputs."""
    place = net.module.parent
    options = ImportOptions(source=str(place / "net.onnx"))
    request = ReferenceRequest(model=options, samples=3, dims=dims or {})
    reference(place / "signature.json", place / "source.json", request, file)
    return file


def altered(known: Path, file: Path, factor: float = 1.5) -> Path:
    """A reference set that expects other outputs."""
    samples = ReferenceSet(known)
    other = (
        ReferenceSample(one.inputs, {name: np.asarray(value * factor, value.dtype) for name, value in one.outputs.items()}, None)
        for one in samples
    )  # fmt: skip
    write_reference_set(file, samples.info, other)
    return file


def package_with_samples(
    net: Transformed,
    directory: Path,
    expected: Path | None,
    test: SelfTest | None = SelfTest(),  # noqa: B008
    goals: Goals = GOALS,
    why_not: str = "",
) -> Path:
    """A package that is exported with a reference set."""
    directory.mkdir(parents=True, exist_ok=True)
    built = package_for(net, directory / "built")
    package = directory / "package.tar"
    request = ExportRequest(self_test=test, goals=goals.of_errors, why_not=why_not)
    export(built / LIBRARY, built / MANIFEST, built / WEIGHTS, request, package, expected)
    return package


def rewritten(package: Path, place: Path, manifest: Manifest) -> None:
    """Unpack a package with another manifest, sealed again."""
    from tvmake.artifact.package import unpack

    place.mkdir()
    unpack(package, place)
    stage_json.save(manifest.sealed(), place / MANIFEST)


def arrays(file: Path) -> dict[str, np.ndarray]:
    """The members of an archive."""
    with zipfile.ZipFile(file) as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    with np.load(file) as loaded:
        return {name: loaded[name] for name in loaded.files}
