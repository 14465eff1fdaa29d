"""Export: mod.so, mod.json and mod.params become one package, with a list of its components beside it."""

from pathlib import Path

from tvmake.artifact.files import digest_file, write_text
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, read_manifest
from tvmake.provenance.components import component_list
from tvmake.target.elf import read_library


def export(lib: Path, manifest: Path, weights: Path, package: Path, components: Path | None = None) -> None:
    """Write the package (tar) and, if asked for, its component list (CycloneDX JSON); the same files give the same bytes.

    Raises:
        InputError: a file does not match the manifest.
    """
    pack({LIBRARY: lib, MANIFEST: manifest, WEIGHTS: weights}, package)
    if components is not None:
        described = read_manifest(manifest.read_bytes(), str(manifest))
        write_text(components, component_list(described, digest_file(package), read_library(lib)))
