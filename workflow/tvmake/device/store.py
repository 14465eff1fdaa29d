"""Packages on this machine, by digest: unpacked once, verified, shared by every run."""

import os
import shutil
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

from tvmake.artifact.files import TEMPORARY_PREFIX, digest_file, writing
from tvmake.artifact.package import unpack, verify_directory
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
            # Someone touched the store; the package itself is the truth.
            _discard(place)
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{os.getpid()}-", dir=root))
    try:
        with writing(root):
            unpack(package, fresh)
            fresh.chmod(0o755)
            try:
                fresh.rename(place)
            except OSError:
                # Another process put the same package first.
                verify_directory(place, str(place))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place


def _discard(place: Path) -> None:
    doomed = place.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{place.name[:16]}")
    place.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
