"""Which processor a device has, and whether a library is for it."""

from pathlib import Path

from tvmake.device.elf import machine_of
from tvmake.errors import DeviceError

NAMES = {
    "x86_64": "x86-64",
    "amd64": "x86-64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv7l": "arm (32 bits)",
    "armv8l": "arm (32 bits)",
    "riscv64": "RISC-V",
    "i686": "x86 (32 bits)",
}
"""``uname -m``, and how triples begin, as :mod:`tvmake.device.elf` calls it."""

REMEDY = "compile for this device: the target's mtriple and mcpu, and cc that links for it"


def check_library(library: Path, machine: str, where: str, remedy: str = REMEDY) -> None:
    """Refuse a library or program that the device cannot load, before it is sent there.

    Args:
        machine: what ``uname -m`` says.

    Raises:
        DeviceError: it is for another processor.
    """
    is_for, has = machine_of(library), NAMES.get(machine, machine)
    if is_for != has:
        raise DeviceError(
            where,
            f"{library.name} is code for {is_for}, and the device is {has} (uname -m: {machine})",
            remedy,
        )


def check_triple(triple: str, machine: str, where: str) -> None:
    """Refuse a target whose code a device cannot load, before anything is compiled for it.

    Args:
        triple: LLVM's, of the code that loads kernels.
        machine: what ``uname -m`` says.

    Raises:
        DeviceError: it is for another processor.
    """
    word = triple.partition("-")[0]
    is_for, has = NAMES.get(word), NAMES.get(machine)
    if is_for and has and is_for != has:
        raise DeviceError(where, f"it is for {is_for}, and its device is {has} (uname -m: {machine})", REMEDY)
