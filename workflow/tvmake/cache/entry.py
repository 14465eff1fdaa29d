"""An entry: one file with all outputs of a stage, the description of its inputs, and a digest over every byte.

    tvmake-cache 1 <sha256 of the next line> <its HMAC-SHA256 with the secret, or ->
    {"key": …, "material": …, "outputs": {role: {"sha256": …, "size": …}}, …}
    <the files' content, in the order of roles and names>

Everything in an entry is checked before use: the seal over the second line, that its key is the requested one and matches its
material, that its outputs are the requested ones, the file's size, and finally each output's digest, before any output gets
its name.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tvmake.cache.errors import BadEntryError, CacheTroubleError, NotCacheableError
from tvmake.cache.key import Material, key
from tvmake.storage.files import atomic_directory, atomic_path, canonical_json, digest_file
from tvmake.storage.remote import first_line

MAGIC = "tvmake-cache 1"

UNSEALED = "-"
"""The value in place of the HMAC without a secret."""

_SEAL = re.compile(rf"{MAGIC} ([0-9a-f]{{64}}) ([0-9a-f]{{64}}|{UNSEALED})\n".encode())

LONGEST_SEAL = 160
"""Bytes of the first line, at most."""

LONGEST_HEADER = 16 << 20
"""Bytes of the second line, at most."""

BLOCK = 1 << 20

SNAKEMAKE_STAMP = ".snakemake_timestamp"
"""A file that Snakemake creates in output directories of rules."""

LONGEST_NAME = 255
"""Bytes in one part of a path, as file systems have it."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StoredFile(_Record):
    """One file's content."""

    sha256: Digest
    size: Annotated[int, Field(ge=0)]


class StoredDirectory(_Record):
    """A directory's files, by their path in it, with slashes."""

    files: dict[str, StoredFile]


class Header(_Record):
    """The second line."""

    key: Digest
    stage: str
    material: dict[str, Any]
    outputs: dict[str, StoredFile | StoredDirectory]
    run_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The stage's run time, in seconds."""
    made_at: str
    """UTC, ISO 8601."""

    @property
    def files(self) -> list[tuple[str, str | None, StoredFile]]:
        """Role, path in the role's directory (None for a file) and content, in the order of storage."""
        listed: list[tuple[str, str | None, StoredFile]] = []
        for role, stored in sorted(self.outputs.items()):
            if isinstance(stored, StoredFile):
                listed.append((role, None, stored))
            else:
                listed += [(role, name, file) for name, file in sorted(stored.files.items())]
        return listed

    @property
    def content_bytes(self) -> int:
        """Size of all files together."""
        return sum(file.size for _, _, file in self.files)


def describe(key_material: Material, outputs: Mapping[str, Path], run_s: float, made_at: str) -> Header:
    """The header for a stage's outputs.

    Raises:
        NotCacheableError: an output is missing, or a directory contains other things than files.
    """
    return Header(
        key=key(key_material),
        stage=key_material["stage"],
        material=key_material,
        outputs={role: _describe_output(path) for role, path in outputs.items()},
        run_s=run_s,
        made_at=made_at,
    )


def size_of(header: Header) -> int:
    """The size of the whole entry in bytes; an upper bound without a secret."""
    line = _text(header)
    return LONGEST_SEAL + len(line) + header.content_bytes


def write(header: Header, outputs: Mapping[str, Path], file: BinaryIO, secret: bytes | None) -> None:
    """Write an entry.

    Raises:
        NotCacheableError: an output changed since it was described.
    """
    line = _text(header)
    file.write(_seal(line, secret) + line)
    for role, name, stored in header.files:
        path = outputs[role] if name is None else outputs[role] / name
        with path.open("rb") as source:
            if _copy(_Content(source), stored.size, file) != stored.sha256 or source.read(1):
                raise NotCacheableError(f"{path} changed while it was stored")


def read_header(file: BinaryIO, size: int, requested_key: str, secret: bytes | None) -> Header:
    """The header of the entry for a key; the content begins where ``file`` is then.

    Raises:
        BadEntryError: it is damaged, of another key, or not sealed with the secret.
        CacheTroubleError: it cannot be read.
    """
    seal, line = _line(file, LONGEST_SEAL), _line(file, LONGEST_HEADER)
    seal_match = _SEAL.fullmatch(seal)
    if seal_match is None:
        raise BadEntryError("it is not an entry of this version")
    if seal_match[1].decode() != hashlib.sha256(line).hexdigest():
        raise BadEntryError("its header is altered")
    if secret is not None and not hmac.compare_digest(seal_match[2].decode(), _hmac(line, secret)):
        is_sealed = seal_match[2].decode() != UNSEALED
        raise BadEntryError("it is sealed with another secret" if is_sealed else "it is not sealed with the secret")
    try:
        header = Header.model_validate_json(line)
        is_canonical = _text(header) == line
        derived_key = key(header.material)
    except (ValidationError, ValueError, RecursionError):
        raise BadEntryError("its header is not understood") from None
    if not is_canonical or header.key != derived_key:
        raise BadEntryError("its header contradicts itself")
    if header.key != requested_key or header.stage != header.material.get("stage"):
        raise BadEntryError("it is the entry of another key")
    for role, name, _ in header.files:
        if name is not None and not _is_safe(name):
            raise BadEntryError(f"it names a file outside of {role}: {name!r}")
    if size != len(seal) + len(line) + header.content_bytes:
        raise BadEntryError(f"it is {size} bytes, expected {len(seal) + len(line) + header.content_bytes}")
    return header


def extract(header: Header, file: BinaryIO, outputs: Mapping[str, Path]) -> None:
    """Write the outputs from an entry's content; all of them, or none if one does not match its digest.

    Raises:
        BadEntryError: the content is damaged, or the entry has other outputs.
        CacheTroubleError: the entry cannot be read.
        MachineError: an output cannot be written.
    """
    if set(header.outputs) != set(outputs):
        raise BadEntryError(f"it has {', '.join(sorted(header.outputs))} instead of {', '.join(sorted(outputs))}")
    content = _Content(file)
    with ExitStack() as stack:
        paths = {
            role: stack.enter_context(
                atomic_path(outputs[role]) if isinstance(stored, StoredFile) else atomic_directory(outputs[role])
            )
            for role, stored in sorted(header.outputs.items())
        }
        for role, name, stored in header.files:
            path = paths[role] if name is None else paths[role] / name
            if name is not None:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch(exist_ok=False)
                except (FileExistsError, NotADirectoryError):
                    raise BadEntryError(f"two of its files are in each other's way: {name!r}") from None
            with path.open("wb") as written:
                if _copy(content, stored.size, written) != stored.sha256:
                    raise BadEntryError(f"{role}{f'/{name}' if name else ''} is altered: its sha256 differs")


def check(header: Header, file: BinaryIO) -> None:
    """Compare an entry's content with its digests.

    Raises:
        BadEntryError: it is damaged.
        CacheTroubleError: it cannot be read.
    """
    content = _Content(file)
    for role, name, stored in header.files:
        if _copy(content, stored.size, None) != stored.sha256:
            raise BadEntryError(f"{role}{f'/{name}' if name else ''} is altered: its sha256 differs")


def _text(header: Header) -> bytes:
    return canonical_json(header.model_dump(mode="json")).encode() + b"\n"


def _seal(line: bytes, secret: bytes | None) -> bytes:
    sealed = UNSEALED if secret is None else _hmac(line, secret)
    return f"{MAGIC} {hashlib.sha256(line).hexdigest()} {sealed}\n".encode()


def _hmac(line: bytes, secret: bytes) -> str:
    return hmac.new(secret, line, hashlib.sha256).hexdigest()


def _describe_output(path: Path) -> StoredFile | StoredDirectory:
    if path.is_symlink() or not path.exists():
        raise NotCacheableError(f"{path} is {'a link' if path.is_symlink() else 'missing'}")
    if path.is_file():
        return StoredFile(sha256=digest_file(path), size=path.stat().st_size)
    files: dict[str, StoredFile] = {}
    for inner in sorted(path.rglob("*")):
        name = inner.relative_to(path).as_posix()
        if inner.is_symlink() or not (inner.is_file() or (inner.is_dir() and any(inner.iterdir()))):
            raise NotCacheableError(f"{inner} is neither a file nor a directory of files")
        if inner.is_file() and inner.name != SNAKEMAKE_STAMP:
            files[name] = StoredFile(sha256=digest_file(inner), size=inner.stat().st_size)
    return StoredDirectory(files=files)


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    plain = name and "\0" not in name and "\\" not in name and not path.is_absolute()
    fits = all(len(part.encode(errors="replace")) <= LONGEST_NAME for part in path.parts) and len(path.parts) < 16
    return bool(plain) and path.as_posix() == name and ".." not in path.parts and fits


def _line(file: BinaryIO, longest: int) -> bytes:
    line = b""
    while len(line) <= longest and not line.endswith(b"\n"):
        try:
            part = file.readline(longest + 1 - len(line))
        except Exception as error:  # fsspec's backends have their own exceptions
            raise CacheTroubleError(f"cannot be read ({first_line(error)})") from error
        if not part:
            break
        line += part
    if not line.endswith(b"\n"):
        raise BadEntryError("it is truncated, or no entry of this version")
    return line


class _Content:
    """Content that is read in order; may end early."""

    def __init__(self, file: BinaryIO):
        self._file = file

    def upto(self, size: int) -> Iterator[bytes]:
        while size:
            try:
                block = self._file.read(min(BLOCK, size))
            except Exception as error:  # fsspec's backends have their own exceptions
                raise CacheTroubleError(f"cannot be read ({first_line(error)})") from error
            if not block:
                return
            size -= len(block)
            yield block


def _copy(content: _Content, size: int, destination: BinaryIO | None) -> str:
    """Copy up to ``size`` bytes; returns their sha256."""
    sha256 = hashlib.sha256()
    for block in content.upto(size):
        sha256.update(block)
        if destination is not None:
            destination.write(block)
    return sha256.hexdigest()
