"""Whether a program asks Android for more than its C library has: imported names against those of an API level."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tvmake.artifact.elf import read_library
from tvmake.errors import MachineError

LIST = Path(__file__).with_name("bionic.txt")
"""Names by the API level that brought them; its first lines say where they are from."""

SYSTEM_LIBRARIES = frozenset({"libc.so", "libm.so", "libdl.so", "liblog.so"})
"""What programs may be linked against: libraries that Android keeps stable, and lets everything load."""


@cache
def levels() -> dict[str, int]:
    """The API level that brought each name to Android's C and mathematical libraries."""
    return dict(_entries())


def _entries() -> Iterator[tuple[str, int]]:
    level = 0
    for line in LIST.read_text().splitlines():
        if line.isdigit():
            level = int(line)
        elif not line.startswith("#"):
            yield from ((name, level) for name in line.split())


def check_imports(file: Path, api: int, where: str) -> None:
    """See that a program or library loads on every Android of an API level.

    Raises:
        MachineError: it needs another library, or a name that the level lacks or tvmake does not know.
    """
    library = read_library(file)
    if others := sorted(set(library.needed) - SYSTEM_LIBRARIES):
        raise MachineError(
            where,
            f"{file.name} needs {', '.join(others)}, which is not part of Android's stable libraries",
            "link it statically; tvmake's programs are meant to need libc, libm and libdl alone",
        )
    known = levels()
    late = [f"{name} (API {known[name]})" for name in library.imports if known.get(name, 0) > api]
    if late:
        raise MachineError(
            where, f"{file.name} imports what Android API {api} lacks: {', '.join(late)}", "build for that API level"
        )
    if unknown := [name for name in library.imports if name not in known]:
        raise MachineError(
            where,
            f"{file.name} imports names that tvmake does not know of Android: {', '.join(unknown[:8])}",
            f"look them up in bionic's libc.map.txt, and add them to {LIST.name}",
        )
