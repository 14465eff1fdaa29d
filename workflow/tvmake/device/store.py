"""Packages on this machine, by digest: unpacked once, verified, shared by every run."""

import os
from importlib import metadata
from pathlib import Path

from platformdirs import user_cache_path

from tvmake.artifact.files import atomic_directory, digest_file
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import MANIFEST, read_manifest, unpack, verify_directory
from tvmake.device.interface import Deployment
from tvmake.errors import InputError

TVM = "apache-tvm"
"""The distribution whose version code and runtime have to share."""


def store_root() -> Path:
    """``$TVMAKE_HOME/packages``, or the user's cache directory."""
    home = os.environ.get("TVMAKE_HOME")
    return (Path(home) if home else user_cache_path("tvmake")) / "packages"


def put(package: Path, root: Path) -> Path:
    """Unpack a package under its digest and return the directory; one that is there and intact is left alone.

    Raises:
        InputError: the package is damaged, or made with another TVM than this one, whose runtime devices are given.
        MachineError: the store cannot be written.
    """
    if not package.is_file():
        raise InputError(str(package), "no such package", "`tvmake make` makes it")
    place = root / digest_file(package)
    manifest = _intact(place)
    if manifest is None:
        with atomic_directory(place) as fresh:
            manifest = unpack(package, fresh)
    _check_version(manifest, package)
    return place


def _intact(place: Path) -> Manifest | None:
    try:
        return verify_directory(place, str(place)) if place.is_dir() else None
    except InputError:
        return None  # someone touched the store; the package itself is the truth and replaces it


def _check_version(manifest: Manifest, package: Path) -> None:
    version, installed = made_with(manifest), metadata.version(TVM)
    if version is not None and version.partition("+")[0] != installed.partition("+")[0]:
        raise InputError(
            str(package),
            f"made with TVM {version}, and devices are given the runtime of TVM {installed}",
            f"make it again here with `tvmake make`, or deploy it from where TVM {version} is installed",
        )


def made_with(manifest: Manifest) -> str | None:
    """The version of TVM that a package was made with; None where it does not say."""
    return next((one.version for one in manifest.components if one.name == TVM), None)


def manifest_of(deployment: Deployment) -> Manifest | None:
    """What a package is; None where it is not, or no longer, known here.

    Raises:
        InputError: its manifest here is damaged.
    """
    file = store_root() / deployment.package_sha256 / MANIFEST
    return read_manifest(file.read_bytes(), str(file)) if file.is_file() else None


def device_kind(deployment: Deployment) -> str:
    """The kind of device that a package's kernels run on; ``cpu`` where the package is not known here."""
    manifest = manifest_of(deployment)
    return manifest.device_kind if manifest else "cpu"
