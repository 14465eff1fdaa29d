"""What processor a shared library is for."""

from pathlib import Path

MACHINES = {
    3: "x86 (32 bits)",
    8: "MIPS",
    21: "PowerPC 64",
    40: "arm (32 bits)",
    62: "x86-64",
    183: "aarch64",
    243: "RISC-V",
}
"""``e_machine`` of elf(5)."""

UNKNOWN = "an unknown processor"


def machine_of(library: Path) -> str:
    """The processor's name; UNKNOWN for what is no ELF file."""
    with library.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return UNKNOWN
    number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
    return MACHINES.get(number, f"processor {number}")
