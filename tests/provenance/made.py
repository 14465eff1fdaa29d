"""Packages made by hand."""

import subprocess
from pathlib import Path
from typing import Any

from tvmake import __version__
from tvmake.artifact.files import digest_bytes
from tvmake.artifact.manifest import Component, Coverage, FileEntry, Manifest
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS
from tvmake.artifact.signature import Signature
from tvmake.provenance.statement import statement
from tvmake.stages.export import export
from tvmake.target.toolchain import driver_identity

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
    source = {"source": "m.onnx", "format": "onnx", "files": {"m.onnx": digest_bytes(b"model")}, "notes": {}}
    build = {"model": name[0], "precision": name[1], "target_name": name[2]}
    said = statement(build, files, {"module.json": digest_bytes(b"module")}, source["files"], COMPONENTS, __version__)
    manifest = Manifest(
        model=name[0],
        precision=name[1],
        target_name=name[2],
        source=source,
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
    **changes: Any,
) -> Path:
    """Write the files of a package, the package, and its component list.

    Args:
        changes: fields of the manifest to replace.
    """
    directory = package.parent
    directory.mkdir(parents=True, exist_ok=True)
    content = {LIBRARY: library, WEIGHTS: weights}
    for file, data in content.items():
        (directory / file).write_bytes(data)
    (directory / MANIFEST).write_text(manifest_of(content, name, **changes).model_dump_json(indent=1) + "\n")
    files = (directory / LIBRARY, directory / MANIFEST, directory / WEIGHTS)
    export(*files, package, package.with_suffix(".cdx.json"))
    return package
