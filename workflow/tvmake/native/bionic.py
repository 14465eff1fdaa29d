"""Check that a program's imports exist in Android's C library at an API level."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tvmake.artifact.elf import read_library
from tvmake.errors import MachineError

LIST = Path(__file__).with_name("bionic.txt")
"""Names by the API level that introduced them; the first lines state the source."""

SYSTEM_LIBRARIES = frozenset({"libc.so", "libm.so", "libdl.so", "liblog.so"})
"""Libraries that programs may link: Android keeps them stable, and every program may load them."""


@cache
def levels() -> dict[str, int]:
    """The API level that introduced each name of Android's C and mathematical libraries."""
    return dict(_entries())


def _entries() -> Iterator[tuple[str, int]]:
    level = 0
    for line in LIST.read_text().splitlines():
        if line.isdigit():
            level = int(line)
        elif not line.startswith("#"):
            yield from ((name, level) for name in line.split())


def check_imports(file: Path, api: int, where: str) -> None:
    """Check that a program or library loads on every Android of an API level.

    Raises:
        MachineError: it needs another library, or a name that is unknown or newer than the level.
    """
    library = read_library(file)
    if others := sorted(set(library.needed) - SYSTEM_LIBRARIES):
        raise MachineError(
            where,
            f"{file.name} needs {', '.join(others)}, which is not part of Android's stable libraries",
            "link it statically; tvmake's programs may need only libc, libm and libdl",
        )
    known = levels()
    late = [f"{name} (API {known[name]})" for name in library.imports if known.get(name, 0) > api]
    if late:
        raise MachineError(
            where,
            f"{file.name} imports names that Android API {api} lacks: {', '.join(late)}",
            "build for that API level",
        )
    if unknown := [name for name in library.imports if name not in known]:
        raise MachineError(
            where,
            f"{file.name} imports names that are not in tvmake's list of Android's: {', '.join(unknown[:8])}",
            f"look them up in bionic's libc.map.txt, and add them to {LIST.name}",
        )
