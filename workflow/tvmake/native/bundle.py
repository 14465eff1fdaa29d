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

from tvmake.errors import MachineError, TvmakeError
from tvmake.native import aarch64
from tvmake.native.compile import build
from tvmake.native.parts import HOST, Toolchain, digest, find_built, package, parts, root
from tvmake.storage.files import atomic_directory, atomic_path, digest_file, write_json

CONTENTS = "bundle.json"

LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so", "libtvm_runtime_extra.so")

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""``uname -m`` and its other spellings."""


def bundle(machine: str, system: str = "linux", with_opencl: bool = False) -> Path:
    """A directory with ``tvmake-run``, ``tvmake-serve`` and their libraries, made the first time.

    Its name holds a digest of its files' contents, which ``bundle.json`` lists.

    Args:
        machine: the device's processor, as ``uname -m`` spells it.
        system: ``linux`` or ``android``.
        with_opencl: include the OpenCL runtime library.

    Raises:
        MachineError: it cannot be built here.
    """
    toolchain, libraries = _toolchain_and_libraries(machine, system)
    names = ("runner", "server", *(("opencl",) if with_opencl else ()))
    files = {parts()[name].output: find_built(name, toolchain) or build(name, toolchain) for name in names}
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


def _toolchain_and_libraries(machine: str, system: str) -> tuple[Toolchain, list[Path]]:
    """The toolchain for a device, and the libraries of TVM that go with its programs."""
    where = f"programs for {system} on {machine}"
    processor = MACHINES.get(machine.lower())
    if system != "linux":
        raise MachineError(
            where,
            "TVM publishes no runtime for it",
            "build TVM's runtime and these programs with its toolchain, and name their directory in devices.NAME.programs "
            "(docs/guides/native.md)",
        )
    if processor is not None and processor == MACHINES.get(platform.machine().lower()):
        directories = (package("tvm") / "lib", package("tvm_ffi") / "lib")
        candidates = [directory / name for name in LIBRARIES for directory in directories]
        return HOST, [file for file in candidates if file.is_file()]
    if processor == "aarch64":
        directory = aarch64.libraries()
        return aarch64.toolchain(), [directory / name for name in LIBRARIES]
    raise MachineError(
        where,
        "tvmake cannot make them here",
        "compile them on the device (docs/guides/native.md), and name their directory in devices.NAME.programs",
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
