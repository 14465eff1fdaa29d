"""A device's processor, and whether a library or program is compiled for it."""

from pathlib import Path

from tvmake.artifact.elf import machine_of
from tvmake.errors import DeviceError

ALIASES = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv8l": "arm", "i686": "i386"}
"""Names in ``uname -m`` and in triples that differ from those of :mod:`tvmake.artifact.elf`."""

NAMES = {
    "x86_64": "x86-64",
    "aarch64": "aarch64",
    "arm": "arm (32 bits)",
    "riscv64": "RISC-V",
    "i386": "x86 (32 bits)",
    "mips": "MIPS",
    "ppc64": "PowerPC 64",
}
"""Names for people, by the name in :mod:`tvmake.artifact.elf`."""

UNKNOWN = "an unknown processor"

REMEDY = "compile for this device: the target's mtriple and mcpu, and cc that links for it"


def name_of(library: Path) -> str:
    """The name of the processor that a library or program is compiled for; UNKNOWN for files that are not ELF."""
    machine = machine_of(library)
    return UNKNOWN if machine is None else NAMES.get(machine, machine)


def is_for(library: Path, machine: str) -> bool:
    """Whether a library or program is compiled for a processor.

    Args:
        machine: the processor's ``uname -m``.
    """
    return name_of(library) == (_name(machine) or machine)


def check_library(library: Path, machine: str, where: str, remedy: str = REMEDY) -> None:
    """Refuse a library or program that the device cannot load, before it is sent.

    Args:
        machine: the device's ``uname -m``.

    Raises:
        DeviceError: it is compiled for another processor.
    """
    if not is_for(library, machine):
        has = _name(machine) or machine
        problem = f"{library.name} is code for {name_of(library)}, and the device is {has} (uname -m: {machine})"
        raise DeviceError(where, problem, remedy)


def check_triple(triple: str, machine: str, where: str) -> None:
    """Refuse a target whose code the device cannot load, before anything is compiled.

    Args:
        triple: LLVM's triple of the host code.
        machine: the device's ``uname -m``.

    Raises:
        DeviceError: it is for another processor.
    """
    target_name, has = _name(triple.partition("-")[0]), _name(machine)
    if target_name and has and target_name != has:
        raise DeviceError(where, f"it is for {target_name}, and its device is {has} (uname -m: {machine})", REMEDY)


def _name(word: str) -> str | None:
    return NAMES.get(ALIASES.get(word, word))
