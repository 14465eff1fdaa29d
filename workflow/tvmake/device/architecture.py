"""Which processor a device has, and whether a library or program is for it."""

from pathlib import Path

from tvmake.artifact.elf import machine_of
from tvmake.errors import DeviceError

ALIASES = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv8l": "arm", "i686": "i386"}
"""``uname -m``, and how triples begin, where :mod:`tvmake.artifact.elf` has another word."""

NAMES = {
    "x86_64": "x86-64",
    "aarch64": "aarch64",
    "arm": "arm (32 bits)",
    "riscv64": "RISC-V",
    "i386": "x86 (32 bits)",
    "mips": "MIPS",
    "ppc64": "PowerPC 64",
}
"""For people, by the word of :mod:`tvmake.artifact.elf`."""

UNKNOWN = "an unknown processor"

REMEDY = "compile for this device: the target's mtriple and mcpu, and cc that links for it"


def name_of(library: Path) -> str:
    """The processor that a library or program is for, for people; UNKNOWN for what is no ELF file."""
    machine = machine_of(library)
    return UNKNOWN if machine is None else NAMES.get(machine, machine)


def is_for(library: Path, machine: str) -> bool:
    """Whether a library or program is for a processor.

    Args:
        machine: its ``uname -m``.
    """
    return name_of(library) == (_name(machine) or machine)


def check_library(library: Path, machine: str, where: str, remedy: str = REMEDY) -> None:
    """Refuse a library or program that the device cannot load, before it is sent there.

    Args:
        machine: the device's ``uname -m``.

    Raises:
        DeviceError: it is for another processor.
    """
    if not is_for(library, machine):
        has = _name(machine) or machine
        raise DeviceError(
            where,
            f"{library.name} is code for {name_of(library)}, and the device is {has} (uname -m: {machine})",
            remedy,
        )


def check_triple(triple: str, machine: str, where: str) -> None:
    """Refuse a target whose code a device cannot load, before anything is compiled for it.

    Args:
        triple: LLVM's, of the code that loads kernels.
        machine: the device's ``uname -m``.

    Raises:
        DeviceError: it is for another processor.
    """
    wanted, has = _name(triple.partition("-")[0]), _name(machine)
    if wanted and has and wanted != has:
        raise DeviceError(where, f"it is for {wanted}, and its device is {has} (uname -m: {machine})", REMEDY)


def _name(word: str) -> str | None:
    return NAMES.get(ALIASES.get(word, word))
