"""What a device needs to run packages without Python: programs and TVM's libraries, in one directory.

``python -m tvmake.native.bundle aarch64 board.tar`` makes an archive to copy by hand. On a board:
``tar -xf board.tar && ./tvmake-run --package DIR``.
"""

import platform
import shutil
import sys
import tarfile
from pathlib import Path

from filelock import FileLock

from tvmake.artifact.files import atomic_directory, atomic_path, digest_file, write_json
from tvmake.errors import MachineError, TvmakeError
from tvmake.native import aarch64
from tvmake.native.compile import build
from tvmake.native.parts import HOST, OPENCL, RUNNER, SERVER, Part, Toolchain, digest, find_built, package, root

CONTENTS = "bundle.json"

LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so", "libtvm_runtime_extra.so")

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""``uname -m`` and its other spellings."""


def bundle(machine: str, system: str = "linux", with_opencl: bool = False) -> Path:
    """A directory with ``tvmake-run``, ``tvmake-serve`` and their libraries, made the first time.

    Its name holds a digest of its files' contents, which ``bundle.json`` lists.

    Args:
        machine: the device's processor, as ``uname -m`` says it.
        system: ``linux`` or ``android``.
        with_opencl: have the OpenCL runtime library in it, too.

    Raises:
        MachineError: tvmake cannot make it here.
    """
    toolchain, libraries = _means(machine, system)
    parts = (RUNNER, SERVER, *((OPENCL,) if with_opencl else ()))
    files = {part.output: find_built(part, toolchain) or build(part, toolchain) for part in parts}
    files |= {file.name: file for file in libraries}
    contents = {
        name: {"sha256": digest_file(file), "size": file.stat().st_size} for name, file in sorted(files.items())
    }
    place = root() / f"bundle-{system}-{MACHINES[machine.lower()]}-{digest(contents)}"
    with FileLock(place.with_suffix(".lock")):
        if not (place / CONTENTS).is_file():
            _copy(files, {"machine": MACHINES[machine.lower()], "system": system, "files": contents}, place)
    return place


def _copy(files: dict[str, Path], facts: dict[str, object], place: Path) -> None:
    with atomic_directory(place) as fresh:
        for name, file in files.items():
            shutil.copyfile(file, fresh / name)
            (fresh / name).chmod(0o755)
        write_json(fresh / CONTENTS, facts)


def program(part: Part) -> Path:
    """A program for this machine, with its libraries beside it.

    Raises:
        MachineError: it has to be compiled, and cannot be.
    """
    return bundle(platform.machine()) / part.output


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


def _means(machine: str, system: str) -> tuple[Toolchain, list[Path]]:
    """What compiles for a device, and the libraries of TVM that go with it."""
    where = f"programs for {system} on {machine}"
    wanted = MACHINES.get(machine.lower())
    if system != "linux":
        raise MachineError(
            where,
            "TVM publishes no runtime for it",
            "build TVM's runtime and these programs with its toolchain, and name their directory in devices.NAME.programs "
            "(docs/native.md)",
        )
    if wanted is not None and wanted == MACHINES.get(platform.machine().lower()):
        places = (package("tvm") / "lib", package("tvm_ffi") / "lib")
        found = [next((place / name for place in places if (place / name).is_file()), None) for name in LIBRARIES]
        return HOST, [file for file in found if file is not None]
    if wanted == "aarch64":
        directory = aarch64.libraries()
        return aarch64.toolchain(), [directory / name for name in LIBRARIES]
    raise MachineError(
        where,
        "tvmake cannot make them here",
        "compile them on the device (docs/native.md), and name their directory in devices.NAME.programs",
    )


def main(arguments: list[str]) -> int:
    """``MACHINE DESTINATION.tar``."""
    if len(arguments) != 2:
        print("usage: python -m tvmake.native.bundle MACHINE DESTINATION.tar", file=sys.stderr)
        return 2
    try:
        pack(bundle(arguments[0]), Path(arguments[1]))
    except TvmakeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
