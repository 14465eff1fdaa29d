"""Packages on this machine, by digest: unpacked once, verified, shared by every run."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from tvmake.artifact.files import atomic_directory, digest_file
from tvmake.artifact.package import MANIFEST, read_manifest, unpack, verify_directory
from tvmake.device.interface import Deployment
from tvmake.errors import InputError


def store_root() -> Path:
    """``$TVMAKE_HOME/packages``, or the user's cache directory."""
    home = os.environ.get("TVMAKE_HOME")
    return (Path(home) if home else user_cache_path("tvmake")) / "packages"


def put(package: Path, root: Path) -> Path:
    """Unpack a package under its digest and return the directory; one that is there and intact is left alone.

    Raises:
        InputError: the package is damaged.
        MachineError: the store cannot be written.
    """
    if not package.is_file():
        raise InputError(str(package), "no such package", "`tvmake make` makes it")
    place = root / digest_file(package)
    if place.is_dir():
        try:
            verify_directory(place, str(place))
            return place
        except InputError:
            pass  # someone touched the store; the package itself is the truth and replaces it
    with atomic_directory(place) as fresh:
        unpack(package, fresh)
    return place


def device_kind(deployment: Deployment) -> str:
    """The kind of device that a package's kernels run on; ``cpu`` where the package is not, or no longer, known here."""
    manifest = store_root() / deployment.package_sha256 / MANIFEST
    return read_manifest(manifest.read_bytes(), str(manifest)).device_kind if manifest.is_file() else "cpu"
