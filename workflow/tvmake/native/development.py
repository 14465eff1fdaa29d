"""The files that a C or C++ program of a user is compiled with, in one directory."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tvmake.errors import InputError
from tvmake.native.bundle import host_libraries
from tvmake.native.compile import build
from tvmake.native.parts import find_built
from tvmake.storage.files import atomic_directory
from tvmake.storage.resources import native_sources

HEADER = Path("include/tvmake/package.h")


def write_library(directory: Path, progress: Callable[[str], None] | None = None) -> None:
    """Write ``include/`` (the headers), ``lib/`` (the package library with TVM's) and ``example/``.

    The OpenCL runtime is in ``lib/`` if it is built for this machine.

    Args:
        directory: a new one, or one that this function wrote.
        progress: called with a line when a compilation starts, and when it ends.

    Raises:
        InputError: the directory has other contents.
        MachineError: the library cannot be compiled, or the directory cannot be written.
    """
    if directory.exists() and not (directory / HEADER).is_file() and (directory.is_file() or any(directory.iterdir())):
        raise InputError(str(directory), "exists and is not a directory of this command", "name a new directory")
    libraries = [build("abi", progress=progress), *host_libraries()]
    if opencl := find_built("opencl"):
        libraries.append(opencl)
    with atomic_directory(directory) as new:
        shutil.copytree(native_sources() / "include", new / "include")
        shutil.copytree(native_sources() / "example", new / "example")
        (new / "lib").mkdir()
        for library in libraries:
            shutil.copy(library, new / "lib")
