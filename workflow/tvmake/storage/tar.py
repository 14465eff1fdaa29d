"""Tar archives of plain files: fixed bytes when written, nothing but plain files when read.

Archives come from elsewhere, so they are read by a reader that knows USTAR's plain files and refuses everything else:
links, devices, directories, sparse files, the header extensions of pax and GNU, names that leave the directory. What is
not read cannot be used to fool us; and nothing is compressed, so that a small archive cannot fill the disk. Every byte of an
archive is accounted for: headers and padding are those that :func:`write_tar` writes, and nothing follows its end.
"""

import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tvmake.errors import InputError
from tvmake.storage.files import atomic_path
from tvmake.storage.permissions import unreadable
from tvmake.storage.plain_files import open_plain

BLOCK = 512
RECORD = tarfile.RECORDSIZE
"""Archives are filled up with zeros to a multiple of this."""

MOST_MEMBERS = 100_000
"""Far more than a package or a bundle has; each costs its archive only 512 bytes."""

PLAIN = (b"0", b"\0")
"""The type flags of a file's content in place."""


def write_tar(files: Mapping[str, Path], destination: Path) -> None:
    """Write ``files`` (member name → file) as a USTAR archive: sorted members, fixed owner, mode and time.

    Raises:
        InputError: a file is too large, or a name too long, for USTAR (8 GiB, about 250 characters).
        MachineError: the archive cannot be written.
    """
    with atomic_path(destination) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(files.items()):
            member = _described(name, file.stat().st_size)
            try:
                header = member.tobuf(tarfile.USTAR_FORMAT)
            except ValueError as error:
                raise InputError(str(file), f"does not fit into a tar archive: {error}") from None
            assert len(header) == BLOCK
            with file.open("rb") as content:
                archive.addfile(member, content)


def digest_as_tar(files: Mapping[str, Path]) -> str:
    """sha256 of the archive that :func:`write_tar` would write of these files.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file does not fit into such an archive.
    """
    sha256, length = hashlib.sha256(), 0

    def add(block: bytes) -> None:
        nonlocal length
        sha256.update(block)
        length += len(block)

    for name, file in sorted(files.items()):
        with open_plain(file) as content:
            size = os.fstat(content.fileno()).st_size
            add(_described(name, size).tobuf(tarfile.USTAR_FORMAT))
            while block := content.read(1 << 20):
                add(block)
            add(bytes(-size % BLOCK))
    add(bytes(2 * BLOCK))
    add(bytes(-length % RECORD))
    return sha256.hexdigest()


def _described(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o755 if name.endswith(".so") else 0o644
    return member


@dataclass
class Member:
    """A plain file of an archive; its content is there until the next member is asked for."""

    name: str
    size: int
    _file: IO[bytes]
    _left: int

    def read(self, size: int) -> bytes:
        """The next bytes of the content, at most ``size``; none at its end, or where the archive is cut."""
        block = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block

    @property
    def missing(self) -> int:
        """Bytes that have not been read."""
        return self._left


def read_tar(archive: Path, what: str, remedy: str, *, nested: bool = False) -> Iterator[Member]:
    """The members of an archive, in order.

    Args:
        what: what the archive should be, for messages (``package``).
        remedy: what to do about a damaged one.
        nested: whether members may lie in directories (``packages/digits.tar``).

    Raises:
        InputError: there is no such file, it is no such archive, truncated, goes on after its end, or holds something
            else than plain files.
    """
    try:
        file = open_plain(archive)
    except FileNotFoundError:
        raise InputError(str(archive), f"no such {what}") from None
    except IsADirectoryError:
        raise InputError(str(archive), f"is a directory, not a {what}") from None
    except OSError as error:
        raise unreadable(archive, error) from None
    with file:
        seen: set[str] = set()
        while (member := _next(file, archive, what, remedy)) is not None:
            _refuse_unsafe(member.name, nested, archive, remedy)
            if member.name in seen:
                raise InputError(str(archive), f"member {member.name!r} appears twice", remedy)
            seen.add(member.name)
            if len(seen) > MOST_MEMBERS:
                raise InputError(str(archive), f"has more than {MOST_MEMBERS} members", remedy)
            content = file.tell()
            yield member
            file.seek(content + member.size)
            padding = -member.size % BLOCK
            if any(found := file.read(padding)) or len(found) < padding:
                raise InputError(str(archive), f"is altered, or truncated, after {member.name!r}", remedy)
        _check_end(file, archive, remedy)


def extract(member: Member, destination: Path, archive: Path, remedy: str) -> None:
    """Write a member's content to a file that is not there yet.

    Raises:
        InputError: the archive ends before the member does.
    """
    with destination.open("xb") as file:
        while block := member.read(1 << 20):
            file.write(block)
    if member.missing:
        raise InputError(
            str(archive),
            f"truncated: {member.name} ends after {member.size - member.missing} of {member.size} bytes",
            remedy,
        )
    if member.name.endswith(".so"):
        destination.chmod(0o755)


COMPRESSED = {b"\x1f\x8b": "gunzip", b"\xfd7zXZ": "unxz", b"BZh": "bunzip2", b"\x28\xb5\x2f\xfd": "unzstd"}
"""How compressed files begin, and what decompresses them."""


def _next(file: IO[bytes], archive: Path, what: str, remedy: str) -> Member | None:
    header = file.read(BLOCK)
    if header == bytes(BLOCK):
        return None
    if program := next((one for sign, one in COMPRESSED.items() if header.startswith(sign)), None):
        problem = f"is compressed, and no plain tar as {what}s are"
        raise InputError(str(archive), problem, f"decompress it: {program} < {archive.name} > plain.tar")
    damaged = InputError(str(archive), f"not a {what}, or truncated", remedy)
    if len(header) < BLOCK or header[257:262] != b"ustar":
        raise damaged
    # The sum counts its own field as blanks.
    if _octal(header[148:156]) != sum(header[:148]) + sum(header[156:]) + 8 * 0x20:
        raise damaged
    name = "/".join(filter(None, (_text(header[345:500]), _text(header[:100]))))
    if header[156:157] not in PLAIN:
        raise InputError(str(archive), f"unsafe member {name!r}: only plain files are allowed", remedy)
    size = _octal(header[124:136])
    if size is None:
        raise damaged
    if header not in _headers(name, size):
        raise InputError(str(archive), f"the header of {name!r} is altered, or not as tvmake writes it", remedy)
    return Member(name, size, file, size)


def _headers(name: str, size: int) -> list[bytes]:
    """How a plain file is described: as a program or not, by nobody, at no time."""
    member = _described(name, size)
    found = []
    for member.mode in (0o644, 0o755):
        with suppress(ValueError):  # no header of tarfile's has such a name
            found.append(member.tobuf(tarfile.USTAR_FORMAT, errors="surrogateescape"))
    return found


def _check_end(file: IO[bytes], archive: Path, remedy: str) -> None:
    """After the block of zeros that was just read, there are zeros to the end of the record, and no more."""
    end = file.tell()
    rest = -(-(end + BLOCK) // RECORD) * RECORD - end
    found = file.read(rest + 1)
    if len(found) > rest or any(found):
        raise InputError(str(archive), "goes on after its end: something was added to it", remedy)
    if len(found) < rest:
        raise InputError(str(archive), "truncated: its end is missing", remedy)


def _refuse_unsafe(name: str, nested: bool, archive: Path, remedy: str) -> None:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or not name.isprintable() or "\\" in name:
        raise InputError(str(archive), f"unsafe member {name!r}: its name leaves the directory or hides", remedy)
    if len(parts) > 1 and not nested:
        raise InputError(str(archive), f"unsafe member {name!r}: only plain top-level files are allowed", remedy)


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and all(0x30 <= digit <= 0x37 for digit in digits) else None


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
