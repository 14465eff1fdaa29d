"""64-bit Arm on this machine: the programs for it, under an emulator."""

import shutil
from pathlib import Path

from tests.native.devices import programs
from tests.requirements import need

EMULATOR = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
"""What comes before a program; the emulator does not know Debian's cross libraries by itself."""

SAYS_AARCH64 = 'test "$1" = -m && echo aarch64 || exec /bin/uname "$@"'
"""A ``uname`` for devices that say they are one."""


def require_emulator() -> None:
    need("aarch64-linux-gnu-g++", "qemu-aarch64-static")


def arm_programs() -> Path:
    """The directory with the programs, which run behind ``EMULATOR``."""
    require_emulator()
    return programs("aarch64")


def emulated_programs(directory: Path) -> Path:
    """A directory with the programs, each a script that emulates it."""
    copied = Path(shutil.copytree(arm_programs(), directory))
    for name in ("tvmake-run", "tvmake-serve"):
        (copied / name).rename(copied / f"{name}.bin")
        (copied / name).write_text(
            '#!/bin/sh\nhere=$(dirname "$0")\n'
            f'exec {" ".join(EMULATOR)} -E LD_LIBRARY_PATH="$here" "$here/{name}.bin" "$@"\n'
        )
        (copied / name).chmod(0o755)
    return copied
