"""The requirements of a shared library on the system that loads it: processor, C library, other libraries."""

import struct
from dataclasses import dataclass
from pathlib import Path

MACHINES = {3: "i386", 8: "mips", 21: "ppc64", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""``e_machine`` of elf(5), by the word that triples begin with."""

MAGIC = b"\x7fELF"
HEADER_BYTES = 20
"""Up to ``e_machine``."""

WIDE_HEADER_BYTES = 64
"""Of a file for 64 bits; no library is shorter."""

PT_LOAD = 1
SHT_DYNAMIC, SHT_VERNEED, SHT_NOTE, SHT_DYNSYM = 6, 0x6FFFFFFE, 7, 11
DT_NEEDED = 1
SHN_UNDEF, STB_WEAK = 0, 2

MOST_NAMES = 10_000
NAME_BYTES = 4096
"""Far more and longer names than libraries have: damaged or hostile tables may lead round in circles."""


@dataclass(frozen=True)
class Library:
    """An ELF file's demands."""

    machine: str
    """As in a triple (``aarch64``), or ``processor <number>``."""
    needed: tuple[str, ...]
    """Libraries it is linked against (``libc.so.6``)."""
    versions: tuple[str, ...]
    """Symbol versions that those must have (``GLIBC_2.17``)."""
    android_api: int | None = None
    """The Android API level it was linked for; None if it is not for Android."""
    imports: tuple[str, ...] = ()
    """Symbols that others must define, but for weak ones."""

    @property
    def glibc(self) -> tuple[int, int] | None:
        """The oldest glibc it loads with; None if it needs none."""
        versions = [_version(name) for name in self.versions if name.startswith("GLIBC_2.")]
        return max(versions, default=None)


def machine_of(path: Path) -> str | None:
    """The processor that a library or program is compiled for, as in a triple; None if it is not an ELF file."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    return _machine(header) if len(header) == HEADER_BYTES and header[:4] == MAGIC else None


def loaded_bytes(path: Path) -> int:
    """The minimum size of a library's file: the end of its mapped segments. A process that reads mapped memory beyond the file's end is
    killed. 0 if it is not an ELF file."""
    with path.open("rb") as file:
        header = file.read(WIDE_HEADER_BYTES)
        if header[:4] != MAGIC:
            return 0
        if len(header) < WIDE_HEADER_BYTES:
            return WIDE_HEADER_BYTES
        is_wide, order = header[4] == 2, _order(header)
        (table,) = struct.unpack_from(f"{order}{'Q' if is_wide else 'I'}", header, 32 if is_wide else 28)
        size, count = struct.unpack_from(f"{order}HH", header, 54 if is_wide else 42)
        file.seek(table)
        segments = file.read(size * count)
    form = f"{order}IIQQQQ" if is_wide else f"{order}IIIII"
    most = table + size * count
    for offset in range(0, len(segments) - struct.calcsize(form) + 1, max(size, 1)):
        kind, *fields = struct.unpack_from(form, segments, offset)
        if kind == PT_LOAD:
            offset, length = (fields[1], fields[4]) if is_wide else (fields[0], fields[3])
            most = max(most, offset + length)
    return int(most)


def read_library(path: Path) -> Library:
    """Read a shared library's header, dynamic section, version needs and Android note.

    Raises:
        ValueError: it is not an ELF file, or is damaged.
    """
    data = path.read_bytes()
    try:
        return _read(data)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is a damaged ELF file") from error


def _read(data: bytes) -> Library:
    if data[:4] != MAGIC:
        raise ValueError("it is not an ELF file")
    is_wide, order = data[4] == 2, _order(data)
    machine = _machine(data)
    sections = _sections(data, is_wide, order)
    needed: list[str] = []
    versions: list[str] = []
    imports: list[str] = []
    api = None
    for section in sections:
        if section.kind == SHT_DYNAMIC:
            names = sections[section.link].offset
            form, step = (f"{order}qQ", 16) if is_wide else (f"{order}iI", 8)
            for offset in range(section.offset, section.offset + section.size, step):
                tag, value = struct.unpack_from(form, data, offset)
                if tag == DT_NEEDED:
                    needed.append(_text(data, names + value))
                    _check_count(needed)
        elif section.kind == SHT_DYNSYM:
            imports += _imports(data, section, sections[section.link].offset, is_wide, order)
        elif section.kind == SHT_VERNEED:
            versions += _versions(data, section, sections[section.link].offset, order)
        elif section.kind == SHT_NOTE:
            api = _android_api(data, section, order) or api
    return Library(machine, tuple(needed), tuple(sorted(set(versions), key=_key)), api, tuple(sorted(imports)))


def _order(data: bytes) -> str:
    return ">" if data[5] == 2 else "<"


def _machine(data: bytes) -> str:
    (number,) = struct.unpack_from(f"{_order(data)}H", data, 18)
    return MACHINES.get(number, f"processor {number}")


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    entries: int


def _sections(data: bytes, is_wide: bool, order: str) -> list[_Section]:
    (table,) = struct.unpack_from(f"{order}{'Q' if is_wide else 'I'}", data, 40 if is_wide else 32)
    size, count = struct.unpack_from(f"{order}HH", data, 58 if is_wide else 46)
    form = f"{order}IIQQQQIIQQ" if is_wide else f"{order}IIIIIIIIII"
    sections = []
    for number in range(count):
        _, kind, _, _, offset, length, link, info, _, _ = struct.unpack_from(form, data, table + number * size)
        sections.append(_Section(kind, offset, length, link, info))
    return sections


def _versions(data: bytes, section: _Section, names: int, order: str) -> list[str]:
    """Elfxx_Verneed: a list of libraries, each with a list of versions."""
    versions = []
    offset = section.offset
    for _ in range(section.entries):
        _, count, _, first, following = struct.unpack_from(f"{order}HHIII", data, offset)
        inner = offset + first
        for _ in range(count):
            _, _, _, name, next_one = struct.unpack_from(f"{order}IHHII", data, inner)
            versions.append(_text(data, names + name))
            _check_count(versions)
            inner += next_one
        offset += following
    return versions


def _imports(data: bytes, section: _Section, names: int, is_wide: bool, order: str) -> list[str]:
    """Elfxx_Sym: undefined symbols that are not weak. The first entry of a table is none."""
    form, step = (f"{order}IBBHQQ", 24) if is_wide else (f"{order}IIIBBH", 16)
    imports = []
    for offset in range(section.offset + step, section.offset + section.size, step):
        fields = struct.unpack_from(form, data, offset)
        name, binding, defined_in = (
            (fields[0], fields[1] >> 4, fields[3]) if is_wide else (fields[0], fields[3] >> 4, fields[5])
        )
        if defined_in == SHN_UNDEF and binding != STB_WEAK:
            imports.append(_text(data, names + name))
            _check_count(imports)
    return imports


def _android_api(data: bytes, section: _Section, order: str) -> int | None:
    """``.note.android.ident``: name ``Android``, the API level first."""
    name_size, size, _ = struct.unpack_from(f"{order}III", data, section.offset)
    start = section.offset + 12
    if data[start : start + name_size].rstrip(b"\0") != b"Android" or size < 4:
        return None
    return int(struct.unpack_from(f"{order}I", data, start + (name_size + 3) // 4 * 4)[0])


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start, start + NAME_BYTES)].decode()


def _check_count(names: list[str]) -> None:
    if len(names) > MOST_NAMES:
        raise IndexError("too many names")


def _version(name: str) -> tuple[int, int]:
    parts = [int(part) for part in name.removeprefix("GLIBC_").split(".")]
    return parts[0], parts[1] if len(parts) > 1 else 0


def _key(name: str) -> tuple[str, list[int]]:
    library, _, version = name.rpartition("_")
    return library, [int(part) for part in version.split(".") if part.isdigit()]
