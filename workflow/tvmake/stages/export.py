"""Export: mod.so, mod.json and mod.params become one package."""

from pathlib import Path

from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack


def export(lib: Path, manifest: Path, weights: Path, package: Path) -> None:
    """Write the package (tar); the same files give the same bytes.

    Raises:
        InputError: a file does not match the manifest.
    """
    pack({LIBRARY: lib, MANIFEST: manifest, WEIGHTS: weights}, package)
