"""Tar archives of plain files: reproducible bytes when written, only plain files when read.

Archives may be hostile, so the reader accepts USTAR's plain files and nothing else: no links, devices, directories, sparse
files, header extensions of pax and GNU, or names outside the directory. Of GNU's format it has binary sizes, for members of 8 GiB and
more; GNU's and BSD's tar and Python read them. Nothing is compressed, so a small archive
cannot fill the disk. Every byte is checked: headers and padding must equal those of :func:`write_tar`, and nothing may
follow the end.
"""

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from tvmake.errors import InputError
from tvmake.storage.files import Sink, atomic_path
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import open_plain

BLOCK = 512
RECORD = tarfile.RECORDSIZE
"""Archives are padded with zeros to a multiple of this."""

LARGE = 8 << 30
"""USTAR has no size of this many bytes or more."""

MOST_MEMBERS = 100_000
"""Far more than a package or a bundle has; each member costs an attacker only 512 bytes."""

COPIED = 1 << 20
"""Bytes of a file that are in memory while it is packed."""

PLAIN = (b"0", b"\0")
"""The type flags of plain files."""


@dataclass(frozen=True)
class Content:
    """The content of a member that is computed while the archive is written."""

    size: int
    write: Callable[[Sink], None]
    """Writes exactly ``size`` bytes."""


def write_tar(files: Mapping[str, Path | Content], destination: Path) -> None:
    """Write ``files`` (member name → file or content) as a USTAR archive: sorted members; fixed owner, mode and time.

    Raises:
        InputError: a name is too long for USTAR (about 250 characters), or a content has another size while it is written.
        MachineError: the archive cannot be written.
    """
    with atomic_path(destination) as temporary, temporary.open("wb") as archive:
        for name, file in sorted(files.items()):
            size = file.size if isinstance(file, Content) else file.stat().st_size
            try:
                archive.write(_header(_member(name, size)))
            except ValueError as error:
                raise InputError(str(file), f"does not fit into a tar archive: {error}") from None
            begin = archive.tell()
            if isinstance(file, Content):
                file.write(archive)
            else:
                with file.open("rb") as content:
                    shutil.copyfileobj(content, archive, COPIED)
            if archive.tell() - begin != size:
                raise InputError(str(destination), f"{name} changed while it was packed", "run the command again")
            archive.write(bytes(-size % BLOCK))
        archive.write(bytes(2 * BLOCK))
        archive.write(bytes(-archive.tell() % RECORD))


def digest_as_tar(files: Mapping[str, Path]) -> str:
    """sha256 of the archive that :func:`write_tar` would write.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file does not fit into a tar archive.
    """
    sha256, length = hashlib.sha256(), 0

    def add(block: bytes) -> None:
        nonlocal length
        sha256.update(block)
        length += len(block)

    for name, file in sorted(files.items()):
        with open_plain(file) as content:
            size = os.fstat(content.fileno()).st_size
            add(_header(_member(name, size)))
            while block := content.read(1 << 20):
                add(block)
            add(bytes(-size % BLOCK))
    add(bytes(2 * BLOCK))
    add(bytes(-length % RECORD))
    return sha256.hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o755 if name.endswith(".so") else 0o644
    return member


def _format(member: tarfile.TarInfo) -> Literal[0, 1]:
    return tarfile.USTAR_FORMAT if member.size < LARGE else tarfile.GNU_FORMAT


def _header(member: tarfile.TarInfo) -> bytes:
    """
    Raises:
        ValueError: the name does not fit.
    """
    header = member.tobuf(_format(member), errors="surrogateescape")
    if len(header) != BLOCK:
        raise ValueError("the name is too long for a file of this size")
    return header


@dataclass
class Member:
    """A plain file of an archive; its content can be read until the next member is requested."""

    name: str
    size: int
    _file: IO[bytes]
    _left: int

    def read(self, size: int) -> bytes:
        """The next bytes of the content, at most ``size``; empty at its end, or if the archive is truncated."""
        block = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block

    @property
    def missing(self) -> int:
        """The number of bytes that were not read."""
        return self._left


def read_tar(archive: Path, what: str, remedy: str, *, nested: bool = False) -> Iterator[Member]:
    """The members of an archive, in order.

    Args:
        what: the expected kind of archive, for messages (``package``).
        remedy: the remedy for a damaged archive.
        nested: whether members may have directories (``packages/digits.tar``).

    Raises:
        InputError: the file is missing, is not such an archive, is truncated, continues after its end, or has members other than
            plain files.
    """
    try:
        file = open_plain(archive)
    except FileNotFoundError:
        raise InputError(str(archive), f"no such {what}") from None
    except IsADirectoryError:
        raise InputError(str(archive), f"is a directory, not a {what}") from None
    except OSError as error:
        raise unreadable_error(archive, error) from None
    with file:
        names: set[str] = set()
        while (member := _next(file, archive, what, remedy)) is not None:
            _refuse_unsafe(member.name, nested, archive, remedy)
            if member.name in names:
                raise InputError(str(archive), f"member {member.name!r} appears twice", remedy)
            names.add(member.name)
            if len(names) > MOST_MEMBERS:
                raise InputError(str(archive), f"has more than {MOST_MEMBERS} members", remedy)
            content = file.tell()
            yield member
            file.seek(content + member.size)
            padding = -member.size % BLOCK
            if any(bytes_read := file.read(padding)) or len(bytes_read) < padding:
                raise InputError(str(archive), f"is altered, or truncated, after {member.name!r}", remedy)
        _check_end(file, archive, remedy)


def extract(member: Member, destination: Path, archive: Path, remedy: str) -> None:
    """Write a member's content to a new file.

    Raises:
        InputError: the archive is truncated within the member.
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
"""The first bytes of compressed files, and the program that decompresses them."""


def _next(file: IO[bytes], archive: Path, what: str, remedy: str) -> Member | None:
    header = file.read(BLOCK)
    if header == bytes(BLOCK):
        return None
    if program := next((command for magic, command in COMPRESSED.items() if header.startswith(magic)), None):
        problem = f"is compressed, but a {what} is a plain tar archive"
        raise InputError(str(archive), problem, f"decompress it: {program} < {archive.name} > plain.tar")
    damaged = InputError(str(archive), f"not a {what}, or truncated", remedy)
    if len(header) < BLOCK or header[257:262] != b"ustar":
        raise damaged
    # The checksum counts its own field as blanks.
    if _octal(header[148:156]) != sum(header[:148]) + sum(header[156:]) + 8 * 0x20:
        raise damaged
    name = "/".join(filter(None, (_text(header[345:500]), _text(header[:100]))))
    if header[156:157] not in PLAIN:
        raise InputError(str(archive), f"unsafe member {name!r}: only plain files are allowed", remedy)
    size = _size(header[124:136])
    if size is None:
        raise damaged
    if header not in _headers(name, size):
        raise InputError(str(archive), f"the header of {name!r} is altered, or not as tvmake writes it", remedy)
    return Member(name, size, file, size)


def _headers(name: str, size: int) -> list[bytes]:
    """The accepted headers of a plain file: executable or not, with fixed owner and time."""
    member = _member(name, size)
    headers = []
    for member.mode in (0o644, 0o755):
        with suppress(ValueError):  # the name does not fit into a USTAR header
            headers.append(_header(member))
    return headers


def _check_end(file: IO[bytes], archive: Path, remedy: str) -> None:
    """Check that zeros fill the last record after the end block, and that nothing follows."""
    end = file.tell()
    padding = -(-(end + BLOCK) // RECORD) * RECORD - end
    bytes_read = file.read(padding + 1)
    if len(bytes_read) > padding or any(bytes_read):
        raise InputError(str(archive), "continues after its end: something was appended", remedy)
    if len(bytes_read) < padding:
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


def _size(field: bytes) -> int | None:
    """A member's size: octal digits, or, after a byte of 0x80, a binary number."""
    return int.from_bytes(field[1:], "big") if field[0] == 0x80 else _octal(field)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
