"""Packages on this machine, by digest: unpacked once, verified, shared by every run."""

import os
import stat
from importlib import metadata
from pathlib import Path

from tvmake.artifact.elf import loaded_bytes
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import (
    AGAIN,
    LIBRARY,
    MANIFEST,
    WEIGHTS,
    check_is_package_file,
    load_manifest,
    unpack,
    verify_directory,
)
from tvmake.artifact.weights_file import parameter_names
from tvmake.device.interface import Deployment
from tvmake.errors import InputError, MachineError
from tvmake.provenance.statement import check_statement
from tvmake.storage.directories import HOME_VARIABLE, cache_directory
from tvmake.storage.files import atomic_directory, digest_file, making_directories
from tvmake.storage.tar import digest_as_tar

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

TVM = "apache-tvm"
"""The distribution whose version code and runtime have to share."""


def store_root() -> Path:
    """``$TVMAKE_HOME/packages``, or the user's cache directory."""
    return cache_directory("packages")


def put(package: Path, root: Path) -> Path:
    """Unpack a package under its digest and return the directory; one that is there and intact is left alone.

    Raises:
        InputError: the package is damaged, its statement or its files are of something else, or it is made with another TVM than this
            one, whose runtime devices get.
        MachineError: the store cannot be written, or is another user's.
    """
    check_is_package_file(package)
    _make_private(root)
    digest = digest_file(package)
    place = root / digest
    try:
        manifest = stored(place)
    except InputError:
        # Nothing is there, or someone touched it; the package itself is the truth and replaces it.
        manifest = _unpacked(package, place)
    check_statement(manifest, str(package))
    _check_contents(place, manifest, package)
    _check_version(manifest, package)
    return place


def _unpacked(package: Path, place: Path) -> Manifest:
    if place.is_symlink():
        place.unlink()
    with atomic_directory(place) as fresh:
        manifest = unpack(package, fresh)
        for file in fresh.iterdir():
            file.chmod(file.stat().st_mode & ~WRITABLE_BY_OTHERS)
        if _digest(fresh) != place.name:
            raise InputError(str(package), "is not packed as tvmake packs, or changed while it was read", AGAIN)
    place.chmod(place.stat().st_mode & ~WRITABLE_BY_OTHERS)
    return manifest


def stored(place: Path) -> Manifest:
    """The manifest of a package in the store, once it is known to be the very package whose digest the directory has for name.

    Its files' digests alone would not do: whoever could write here could have written a manifest to fit.

    Raises:
        InputError: there is none, it is another one, or others than its owner may write to it.
    """
    if not place.is_dir():
        raise InputError(str(place), "no package is there", "run again: it is put there")
    try:
        about = [place.lstat(), *(file.lstat() for file in place.iterdir())]
        is_plain = stat.S_ISDIR(about[0].st_mode) and all(stat.S_ISREG(one.st_mode) for one in about[1:])
        is_private = all(one.st_uid in (os.geteuid(), 0) and not one.st_mode & WRITABLE_BY_OTHERS for one in about)
        is_intact = is_plain and is_private and _digest(place) == place.name
    except (OSError, ValueError):
        is_intact = False
    if not is_intact:
        # What is damaged can be named; else it was changed together with its manifest.
        verify_directory(place, str(place))
        raise InputError(str(place), "is not the package that was put there", "run again: it is put there anew")
    return load_manifest(place / MANIFEST, str(place))


def _digest(directory: Path) -> str:
    return digest_as_tar({file.name: file for file in directory.iterdir()})


def _make_private(root: Path) -> None:
    with making_directories(root):
        root.mkdir(parents=True, exist_ok=True)
        about = root.stat()
        if about.st_mode & WRITABLE_BY_OTHERS and about.st_uid == os.geteuid():
            root.chmod(about.st_mode & ~WRITABLE_BY_OTHERS)
            about = root.stat()
    if about.st_uid not in (os.geteuid(), 0) or about.st_mode & WRITABLE_BY_OTHERS:
        remedy = f"name a directory of your own with {HOME_VARIABLE}"
        raise MachineError(str(root), "packages are run from there, and other users may write to it", remedy)


def _check_contents(place: Path, manifest: Manifest, package: Path) -> None:
    """What digests do not tell: a manifest may have been written for files that are cut short, or of another network."""
    library = place / LIBRARY
    size, loaded = library.stat().st_size, loaded_bytes(library)
    if size < loaded:
        raise InputError(str(package), f"{LIBRARY} is cut short: it has {size} bytes of {loaded}", AGAIN)
    try:
        known = parameter_names(place / WEIGHTS)
    except ValueError as error:
        raise InputError(str(package), f"{WEIGHTS} is damaged: {error}", AGAIN) from None
    missing = next((one.name for one in manifest.parameters if one.name not in known), None)
    if missing is not None:
        raise InputError(str(package), f"{WEIGHTS} lacks the parameter '{missing}'", AGAIN)


def _check_version(manifest: Manifest, package: Path) -> None:
    version, installed = made_with(manifest), metadata.version(TVM)
    if version is not None and version.partition("+")[0] != installed.partition("+")[0]:
        raise InputError(
            str(package),
            f"made with TVM {version}, and devices are given the runtime of TVM {installed}",
            f"make it again here with `tvmake make`, or deploy it from where TVM {version} is installed",
        )


def made_with(manifest: Manifest) -> str | None:
    """The version of TVM that a package was made with; None where it is not recorded."""
    return next((one.version for one in manifest.components if one.name == TVM), None)


def manifest_of(deployment: Deployment) -> Manifest | None:
    """What a package is; None where it is not, or no longer, known here.

    Raises:
        InputError: its manifest here is damaged.
    """
    file = store_root() / deployment.package_sha256 / MANIFEST
    return load_manifest(file, str(file)) if file.is_file() else None


def device_kind(deployment: Deployment) -> str:
    """The kind of device that a package's kernels run on; ``cpu`` where the package is not known here."""
    manifest = manifest_of(deployment)
    return manifest.device_kind if manifest else "cpu"
