"""What a device needs to run packages without Python: programs and TVM's libraries, in one directory.

``tvmake runtime build aarch64-linux-gnu -o board.tar`` makes an archive to copy by hand. On a board:
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
from tvmake.native.bionic import check_imports
from tvmake.native.compile import build
from tvmake.native.parts import HOST, Toolchain, digest, find_built, package, parts, root
from tvmake.storage.files import atomic_directory, atomic_path, digest_file, write_json

CONTENTS = "bundle.json"

BUILT_IN = "built in"
"""What ``bundle.json`` says of OpenCL where it needs no library beside the programs."""

TRIPLES = ("aarch64-linux-android", "aarch64-linux-musl", "aarch64-linux-gnu")
"""The usual ones."""

LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so", "libtvm_runtime_extra.so")

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""``uname -m`` and its other spellings."""


SYSTEMS = {"gnu": "linux", "musl": "musl", "android": "android"}
"""The last word of a triple, by the system that it stands for here."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """What programs are made for.

    Attributes:
        machine: the processor, as ``uname -m`` spells it.
        system: ``linux`` has glibc; ``musl`` is any Linux, with programs that hold all they need and run CPU packages only;
            ``android`` has an NDK's programs, or those of ``musl`` where there is no NDK.
        with_opencl: OpenCL packages are to run.
        api: Android's API level; :data:`tvmake.native.ndk.OLDEST_API` when None.
    """

    machine: str
    system: str = "linux"
    with_opencl: bool = False
    api: int | None = None


@dataclass(frozen=True)
class _Recipe:
    """How programs are made, and the libraries that go beside them."""

    toolchain: Toolchain
    libraries: tuple[Path, ...] = ()
    names: tuple[str, ...] = ("runner", "server")
    builds_in_opencl: bool = False
    api: int | None = None


def parse_triple(triple: str, api: int | None = None) -> Target:
    """The target that a triple such as ``aarch64-linux-android`` or ``aarch64-linux-android28`` names.

    Raises:
        UsageError: it is for another kind of system.
    """
    found = re.fullmatch(r"(\w+)(?:-\w+)?-linux-(gnu|musl|android)(\d+)?", triple)
    if found is None or (found[3] and found[2] != "android"):
        raise UsageError(
            "runtime build", f"'{triple}' is no system that programs can be made for", f"such as {', '.join(TRIPLES)}"
        )
    level = api or (int(found[3]) if found[3] else None)
    return Target(
        found[1], SYSTEMS[found[2]], with_opencl=found[2] == "android" and ndk.find_ndk() is not None, api=level
    )


def bundle(machine: str, system: str = "linux", with_opencl: bool = False, progress: Progress | None = None) -> Path:
    """A directory with ``tvmake-run``, ``tvmake-serve`` and their libraries, made the first time.

    Its name holds a digest of its files' contents, which ``bundle.json`` lists.

    Args:
        machine, system, with_opencl: see :class:`Target`.
        progress: gets a line when a compilation starts, and when it is done.

    Raises:
        MachineError: it cannot be built here.
    """
    return bundle_for(Target(machine, system, with_opencl), progress)


def bundle_for(target: Target, progress: Progress | None = None) -> Path:
    """The same, for a target.

    Raises:
        MachineError: it cannot be built here.
    """
    recipe = _recipe(target, progress)
    toolchain, processor = recipe.toolchain, MACHINES[target.machine.lower()]
    files = {
        parts()[name].output: find_built(name, toolchain) or build(name, toolchain, progress) for name in recipe.names
    }
    if recipe.api is not None:
        for file in files.values():
            check_imports(file, recipe.api, f"programs for android on {processor}")
    files |= {file.name: file for file in recipe.libraries}
    contents = {
        name: {"sha256": digest_file(file), "size": file.stat().st_size} for name, file in sorted(files.items())
    }
    facts: dict[str, object] = {"machine": processor, "system": target.system, "files": contents}
    if recipe.builds_in_opencl:
        facts["opencl"] = BUILT_IN
    place = root() / f"bundle-{target.system}-{processor}-{digest(facts)}"
    with FileLock(place.with_suffix(".lock")):
        if not (place / CONTENTS).is_file():
            _copy(files, facts, place)
    return place


def has_built_in_opencl(directory: Path) -> bool:
    """Whether the programs of a bundle hold the OpenCL runtime themselves."""
    try:
        return json.loads((directory / CONTENTS).read_text()).get("opencl") == BUILT_IN
    except (OSError, ValueError, AttributeError):
        return False


def _copy(files: dict[str, Path], facts: dict[str, object], place: Path) -> None:
    with atomic_directory(place) as fresh:
        for name, file in files.items():
            shutil.copyfile(file, fresh / name)
            (fresh / name).chmod(0o755)
        write_json(fresh / CONTENTS, facts)


def program(name: str) -> Path:
    """A program (``runner``, ``server``) for this machine, with its libraries beside it.

    Raises:
        MachineError: it has to be compiled, and cannot be.
    """
    return bundle(platform.machine()) / parts()[name].output


def pack(directory: Path, destination: Path) -> None:
    """Write a bundle as a tar; equal bundles give equal bytes.

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
    """How the programs for a device are made."""
    where = f"programs for {target.system} on {target.machine}"
    processor = MACHINES.get(target.machine.lower())
    if processor in standalone.PROCESSORS and target.system == "android" and (ndk.find_ndk() or target.api):
        toolchain = ndk.toolchain(processor, target.api, progress)
        names = ("runner", "server", "abi", "jni")  # the last two for apps
        return _Recipe(toolchain, names=names, builds_in_opencl=True, api=target.api or ndk.OLDEST_API)
    if processor in standalone.PROCESSORS and target.system == "android" and target.with_opencl:
        raise MachineError(
            where,
            "Android's OpenCL drivers can be used only by what its NDK has compiled, and no NDK is found",
            ndk.GET,
        )
    if processor in standalone.PROCESSORS and target.system in ("android", "musl"):
        return _Recipe(standalone.toolchain(processor, progress))
    names = ("runner", "server", *(("opencl",) if target.with_opencl else ()))
    if target.system == "linux" and processor is not None and processor == MACHINES.get(platform.machine().lower()):
        directories = (package("tvm") / "lib", package("tvm_ffi") / "lib")
        candidates = [directory / name for name in LIBRARIES for directory in directories]
        return _Recipe(HOST, tuple(file for file in candidates if file.is_file()), names)
    if target.system == "linux" and processor == "aarch64":
        directory = aarch64.libraries()
        return _Recipe(aarch64.toolchain(), tuple(directory / name for name in LIBRARIES), names)
    raise MachineError(
        where,
        "tvmake cannot make them here",
        "compile them on the device (docs/guides/native.md), and name their directory in devices.NAME.programs",
    )
