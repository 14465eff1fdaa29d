"""Everything that a device needs to run packages without Python: programs and TVM's libraries, in one directory.

``tvmake runtime build aarch64-linux-gnu -o board.tar`` writes an archive to copy by hand. On a board:
``tar -xf board.tar && ./tvmake-run --package DIR``.
"""

import json
import platform
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tvmake.errors import MachineError, UsageError
from tvmake.native import aarch64, ndk, standalone
from tvmake.native.compile import build
from tvmake.native.parts import HOST, Toolchain, digest, find_built, package, parts, root
from tvmake.storage.files import atomic_directory, atomic_path, digest_file, write_json

CONTENTS = "bundle.json"

BUILT_IN = "built in"
"""The value for OpenCL in ``bundle.json`` if the programs contain the runtime."""

TRIPLES = ("aarch64-linux-android", "aarch64-linux-musl", "aarch64-linux-gnu")
"""The triples of the usual systems."""

LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so", "libtvm_runtime_extra.so")

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""Processors by their names in ``uname -m``."""


SYSTEMS = {"gnu": "linux", "musl": "musl", "android": "android"}
"""Systems by the last word of a triple."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """The system that programs are built for.

    Attributes:
        machine: the processor, as in ``uname -m``.
        system: ``linux`` has glibc; ``musl`` is any Linux, with static programs that run CPU packages only; ``android`` has
            programs of an NDK, or those of ``musl`` without an NDK.
        with_opencl: whether OpenCL packages must run.
        api: Android's API level; default: :data:`tvmake.native.ndk.OLDEST_API`.
    """

    machine: str
    system: str = "linux"
    with_opencl: bool = False
    api: int | None = None


@dataclass(frozen=True)
class _Recipe:
    """How to build programs, and the libraries beside them."""

    toolchain: Toolchain
    libraries: tuple[Path, ...] = ()
    names: tuple[str, ...] = ("runner", "server")
    builds_in_opencl: bool = False


def parse_triple(triple: str, api: int | None = None) -> Target:
    """Parse a triple such as ``aarch64-linux-android`` or ``aarch64-linux-android28``.

    Raises:
        UsageError: its system is not supported.
    """
    match = re.fullmatch(r"(\w+)(?:-\w+)?-linux-(gnu|musl|android)(\d+)?", triple)
    if match is None or (match[3] and match[2] != "android"):
        raise UsageError("runtime build", f"'{triple}' is not a supported system", f"such as {', '.join(TRIPLES)}")
    level = api or (int(match[3]) if match[3] else None)
    return Target(
        match[1], SYSTEMS[match[2]], with_opencl=match[2] == "android" and ndk.find_ndk() is not None, api=level
    )


def bundle(machine: str, system: str = "linux", with_opencl: bool = False, progress: Progress | None = None) -> Path:
    """A directory with ``tvmake-run``, ``tvmake-serve`` and their libraries, built on the first call.

    Its name has a digest of the files' contents, which ``bundle.json`` lists.

    Args:
        machine, system, with_opencl: see :class:`Target`.
        progress: called with a line when a compilation starts, and when it ends.

    Raises:
        MachineError: it cannot be built here.
    """
    return bundle_for(Target(machine, system, with_opencl), progress)


def bundle_for(target: Target, progress: Progress | None = None) -> Path:
    """Like :func:`bundle`, for a target.

    Raises:
        MachineError: it cannot be built here.
    """
    recipe = _recipe(target, progress)
    toolchain, processor = recipe.toolchain, MACHINES[target.machine.lower()]
    files = {
        parts()[name].output: find_built(name, toolchain) or build(name, toolchain, progress) for name in recipe.names
    }
    files |= {file.name: file for file in recipe.libraries}
    contents = {
        name: {"sha256": digest_file(file), "size": file.stat().st_size} for name, file in sorted(files.items())
    }
    facts: dict[str, object] = {"machine": processor, "system": target.system, "files": contents}
    if recipe.builds_in_opencl:
        facts["opencl"] = BUILT_IN
    directory = root() / f"bundle-{target.system}-{processor}-{digest(facts)}"
    with FileLock(directory.with_suffix(".lock")):
        if not (directory / CONTENTS).is_file():
            _copy(files, facts, directory)
    return directory


def has_built_in_opencl(directory: Path) -> bool:
    """Whether the programs of a bundle contain the OpenCL runtime."""
    try:
        return json.loads((directory / CONTENTS).read_text()).get("opencl") == BUILT_IN
    except (OSError, ValueError, AttributeError):
        return False


def _copy(files: dict[str, Path], facts: dict[str, object], directory: Path) -> None:
    with atomic_directory(directory) as temporary:
        for name, file in files.items():
            shutil.copyfile(file, temporary / name)
            (temporary / name).chmod(0o755)
        write_json(temporary / CONTENTS, facts)


def program(name: str) -> Path:
    """A program (``runner``, ``server``) for this machine, in one directory with its libraries.

    Raises:
        MachineError: it must be compiled, and cannot be.
    """
    return bundle(platform.machine()) / parts()[name].output


def host_libraries() -> tuple[Path, ...]:
    """TVM's libraries for programs on this machine."""
    directories = (package("tvm") / "lib", package("tvm_ffi") / "lib")
    candidates = [directory / name for name in LIBRARIES for directory in directories]
    return tuple(file for file in candidates if file.is_file())


def pack(directory: Path, destination: Path) -> None:
    """Write a bundle as a tar archive; equal bundles give equal bytes.

    Raises:
        MachineError: the destination cannot be written.
    """
    with atomic_path(destination) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(directory.iterdir()):
            member = tarfile.TarInfo(file.name)
            member.size = file.stat().st_size
            member.mode = 0o644 if file.name == CONTENTS else 0o755
            with file.open("rb") as content:
                archive.addfile(member, content)


def _recipe(target: Target, progress: Progress | None) -> _Recipe:
    """How to build the programs for a device."""
    where = f"programs for {target.system} on {target.machine}"
    processor = MACHINES.get(target.machine.lower())
    if processor in standalone.PROCESSORS and target.system == "android" and (ndk.find_ndk() or target.api):
        toolchain = ndk.toolchain(processor, target.api, progress)
        names = ("runner", "server", "abi", "jni")  # the last two for apps
        return _Recipe(toolchain, names=names, builds_in_opencl=True)
    if processor in standalone.PROCESSORS and target.system == "android" and target.with_opencl:
        problem = "Android's OpenCL drivers work only with programs of its NDK, and no NDK was found"
        raise MachineError(where, problem, ndk.GET)
    if processor in standalone.PROCESSORS and target.system in ("android", "musl"):
        return _Recipe(standalone.toolchain(processor, progress))
    names = ("runner", "server", *(("opencl",) if target.with_opencl else ()))
    if target.system == "linux" and processor is not None and processor == MACHINES.get(platform.machine().lower()):
        return _Recipe(HOST, host_libraries(), names)
    if target.system == "linux" and processor == "aarch64":
        directory = aarch64.libraries()
        return _Recipe(aarch64.toolchain(), tuple(directory / name for name in LIBRARIES), names)
    remedy = "compile them on the device (docs/guides/native.md), and name their directory in devices.NAME.programs"
    raise MachineError(where, "tvmake cannot build them here", remedy)
