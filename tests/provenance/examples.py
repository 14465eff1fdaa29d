"""Packages made by hand."""

import subprocess
from pathlib import Path
from typing import Any

from tvmake import __version__
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Component, Coverage, FileEntry, Manifest
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS
from tvmake.artifact.signature import Signature
from tvmake.artifact.source import SourceRecord
from tvmake.artifact.weights.packings import WeightPackings
from tvmake.config.requests.building import ExportRequest
from tvmake.provenance.check import components_file, to_sign
from tvmake.provenance.origin import origin_file
from tvmake.provenance.signature import Signed
from tvmake.provenance.signature import sign as sign_file
from tvmake.provenance.statement import RECORDS, statement
from tvmake.stages.package.attest import attest
from tvmake.stages.package.export import export
from tvmake.storage.files import digest_bytes
from tvmake.targets.toolchain import driver_identity

SOURCE = SourceRecord(source="m.onnx", format="onnx", files={"m.onnx": digest_bytes(b"model")}, notes={"opset": 20})

NETWORK = {name: digest_bytes(name.encode()) for name in ("module.json", "module.params", "signature.json")}
"""What a package was built from: files that hold their names."""

COMPONENTS = [
    Component(name="tvmake", version=__version__),
    Component(name="apache-tvm", version="0.27.0.post1"),
    Component(name="linker", version=driver_identity("g++")),
]


def make_library(directory: Path) -> bytes:
    """What the system's compiler links."""
    (directory / "probe.c").write_text('#include <stdio.h>\nint probe(void) { return puts("7"); }\n')
    command = ["g++", "-shared", "-fPIC", "-o", "probe.so", "probe.c"]
    subprocess.run(command, cwd=directory, check=True)
    return (directory / "probe.so").read_bytes()


def manifest_of(content: dict[str, bytes], name: tuple[str, str, str], **changes: Any) -> Manifest:
    """The manifest of a package with these files."""
    files = {file: FileEntry(sha256=digest_bytes(data), size=len(data)) for file, data in content.items()}
    build = {"model": name[0], "precision": name[1], "target_name": name[2]}
    records = changes.get("records_sha256")
    inputs = NETWORK | ({RECORDS: records} if records else {})
    said = statement(build, files, inputs, COMPONENTS, __version__)
    manifest = Manifest(
        model=name[0],
        precision=name[1],
        target_name=name[2],
        network=NETWORK,
        signature=Signature(inputs=(), outputs=()),
        parameters=[],
        target={"kind": "opencl"},
        build=build,
        libinfo={},
        coverage=Coverage(tuned=0, tunable=0, misses={}),
        kernels=[],
        graph=[],
        files=files,
        components=COMPONENTS,
        provenance=said.model_dump(mode="json", exclude_none=True),
    )
    return manifest.model_copy(update=changes).sealed()


def make_package(
    package: Path,
    library: bytes,
    name: tuple[str, str, str] = ("m", "float32", "cpu"),
    weights: bytes = b"weights" * 100,
    source: SourceRecord | None = SOURCE,
    **changes: Any,
) -> Path:
    """Write the files of a package, the package, its provenance and its component list.

    Args:
        source: where its network came from; None for a package with nothing beside it.
        changes: fields of the manifest to replace.
    """
    directory = package.parent
    directory.mkdir(parents=True, exist_ok=True)
    content = {LIBRARY: library, WEIGHTS: weights}
    for file, data in content.items():
        (directory / file).write_bytes(data)
    (directory / MANIFEST).write_text(manifest_of(content, name, **changes).model_dump_json(indent=1) + "\n")
    packing = directory / "packing.json"
    stage_json.save(WeightPackings(), packing)
    export(directory / LIBRARY, directory / MANIFEST, packing, directory / WEIGHTS, ExportRequest(), package)
    if source is not None:
        stage_json.save(source, directory / "source.json")
        attest(package, directory / "source.json", origin_file(package), components_file(package))
    return package


def sign(package: Path, key: Path) -> Signed:
    """Sign a package and its provenance, as ``tvmake sign`` does."""
    signed = [sign_file(file, key) for file in to_sign(package)]
    return signed[0]
