"""Import a bundle's files and records: everything is checked before anything is written."""

import gzip
import shutil
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.artifact.manifest import FileEntry
from tvmake.bundle.contents import (
    AGAIN,
    CONFIG,
    CONTENTS,
    INPUTS,
    LOCK,
    MOST_CONTENTS_BYTES,
    PACKAGES,
    RECORDS,
    Contents,
    config_text,
    parse_contents,
)
from tvmake.errors import InputError
from tvmake.lock.document import Lock, read_lock
from tvmake.provenance.check import check_package, files_beside
from tvmake.records.sharing.exchange import import_records
from tvmake.records.sharing.ingest import IngestReport
from tvmake.records.sharing.portable import FREE_BYTES, MOST_RATIO
from tvmake.records.store import RecordStore
from tvmake.storage.files import atomic_path, digest_file, scratch_directory, writing
from tvmake.storage.tar import extract, read_tar

NO_INPUTS = {LOCK, CONFIG, RECORDS, CONTENTS, PACKAGES.rstrip("/"), "profiles", "rules", "snakefile", "workflow"}
"""Names that inputs may not have: parts of a bundle, or of a workflow, which would run."""


@dataclass
class Imported:
    """The result of an import."""

    contents: Contents
    placed: list[Path] = field(default_factory=list)
    unchanged: list[Path] = field(default_factory=list)
    """Files that were there already, byte for byte."""
    replaced: list[Path] = field(default_factory=list)
    records: IngestReport | None = None


def read_bundle(bundle: Path, into: Path, store: RecordStore, *, replace: bool = False) -> Imported:
    """Check a bundle, add its records to the store, and write its files; doing so again changes nothing.

    Args:
        into: the directory for config, lock, packages and inputs; created if necessary.
        replace: overwrite files of the same name.

    Raises:
        InputError: the bundle is truncated, altered, unsafe or of another version, or differs from existing files. Nothing is
            written then.
        MachineError: the directory or the store cannot be written.
    """
    if into.exists() and not into.is_dir():
        raise InputError(str(into), "is not a directory", "name one with --into")
    nearest = next(parent for parent in (into, *into.absolute().parents) if parent.is_dir())
    with writing(into), scratch_directory(nearest) as unpacked:
        contents = _unpack(bundle, unpacked)
        _check(bundle, unpacked, contents)
        imported = Imported(contents)
        destinations = {member: into / _destination(member) for member in contents.files if member != RECORDS}
        differing = _sort(unpacked, destinations, imported)
        if differing and not replace:
            more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
            raise InputError(
                str(into / _destination(differing[0])),
                f"exists and differs from the bundle's{more}; nothing was written",
                "import into another directory with --into, or put the bundle's over it with --replace",
            )
        if RECORDS in contents.files:
            imported.records = import_records(store, unpacked / RECORDS)
        for member, path in destinations.items():
            if path in imported.unchanged:
                continue
            (imported.replaced if member in differing else imported.placed).append(path)
            with atomic_path(path) as temporary:
                shutil.copyfile(unpacked / member, temporary)
    return imported


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle, be it damaged or of another version."""
    try:
        return next(read_tar(file, "bundle", AGAIN, nested=True)).name == CONTENTS
    except (InputError, StopIteration):
        return False


def _unpack(bundle: Path, directory: Path) -> Contents:
    """Extract into an empty directory, checking each member at once."""
    contents: Contents | None = None
    extracted: dict[str, FileEntry] = {}
    for member in read_tar(bundle, "bundle", AGAIN, nested=True):
        if member.name == CONTENTS:
            if member.size > MOST_CONTENTS_BYTES:
                raise InputError(str(bundle), f"{CONTENTS} has {member.size} bytes", AGAIN)
            contents = parse_contents(member.read(member.size), bundle)
            continue
        _destination(member.name, bundle)
        if contents is None:
            # Members are sorted, so bundle.json is the first.
            raise InputError(
                str(bundle), f"does not begin with {CONTENTS}: no bundle, or not as tvmake wrote it", AGAIN
            )
        entry = contents.files.get(member.name)
        if entry is None:
            raise InputError(str(bundle), f"has {member.name!r}, which {CONTENTS} does not list", AGAIN)
        if member.size != entry.size:
            raise InputError(str(bundle), f"{member.name} has {member.size} bytes, expected {entry.size}", AGAIN)
        path = directory / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        extract(member, path, bundle, AGAIN)
        path.chmod(0o644)
        extracted[member.name] = FileEntry(sha256=digest_file(path), size=member.size)
        if extracted[member.name] != entry:
            raise InputError(str(bundle), f"{member.name} is altered: its sha256 differs from {CONTENTS}'s", AGAIN)
    if contents is None:
        raise InputError(str(bundle), f"no bundle, or truncated: {CONTENTS} is missing", AGAIN)
    missing = sorted(set(contents.files) - set(extracted))
    if missing:
        raise InputError(str(bundle), f"truncated: {missing[0]} is missing", AGAIN)
    return contents


def _destination(member: str, bundle: Path | None = None) -> str:
    """A member's path, relative to the directory of the import.

    Raises:
        InputError: it is not a valid member of a bundle.
    """
    if member in (LOCK, CONFIG, RECORDS):
        return member
    # Other programs may obey hidden files.
    is_hidden = any(part.startswith(".") for part in member.split("/"))
    if member.startswith(PACKAGES) and not is_hidden:
        return member
    name = member.removeprefix(INPUTS)
    if name == member or is_hidden or name.split("/")[0].casefold() in NO_INPUTS:
        raise InputError(str(bundle or member), f"has {member!r}, which is not a valid member", AGAIN)
    return name


def _check(bundle: Path, directory: Path, contents: Contents) -> None:
    """Read the lock, and check that packages and inputs match it.

    Raises:
        InputError: a file is missing, damaged, or differs from the lock.
    """
    for name in (LOCK, CONFIG):
        if name not in contents.files:
            raise InputError(str(bundle), f"has no {name}", AGAIN)
    try:
        locked = read_lock(directory / LOCK)
    except InputError as error:
        raise InputError(f"{bundle}: {LOCK}", error.problem, error.remedy) from None
    if (directory / CONFIG).read_bytes() != config_text(locked).encode():
        raise InputError(str(bundle), f"{CONFIG} is not the config that its lock names", AGAIN)
    named = {PACKAGES + entry.path for entry in locked.packages}
    if missing := sorted(named - set(contents.files)):
        raise InputError(str(bundle), f"has no {missing[0]}, which its lock lists", AGAIN)
    for name, entry in contents.files.items():
        _check_member(bundle, directory, name, entry, locked)
    if RECORDS in contents.files:
        _refuse_bomb(bundle, directory / RECORDS)


def _check_member(bundle: Path, directory: Path, name: str, entry: FileEntry, locked: Lock) -> None:
    if name.startswith(INPUTS) and locked.origins.inputs.get(name.removeprefix(INPUTS)) != entry.sha256:
        raise InputError(str(bundle), f"{name} is not the file that its lock names", AGAIN)
    if not name.startswith(PACKAGES):
        return
    path = name.removeprefix(PACKAGES)
    folder, _, file = path.rpartition("/")
    package = directory / PACKAGES / folder / "package.tar"
    if file != package.name:
        if not package.is_file() or directory / name not in files_beside(package):
            raise InputError(str(bundle), f"has {name!r}, which belongs to no package", AGAIN)
        return
    if entry.sha256 not in {artifact.sha256 for artifact in locked.artifacts if artifact.path == path}:
        raise InputError(str(bundle), f"{name} is not the package that its lock names", AGAIN)
    try:
        check_package(directory / name)
    except InputError as error:
        raise InputError(f"{bundle}: {name}", error.problem, error.remedy) from None


def _refuse_bomb(bundle: Path, records: Path) -> None:
    allowed = max(FREE_BYTES, MOST_RATIO * records.stat().st_size)
    size = 0
    try:
        with gzip.open(records) as file:
            while block := file.read(1 << 20):
                size += len(block)
                if size > allowed:
                    raise InputError(
                        str(bundle),
                        f"{RECORDS} unpacks to more than {allowed >> 20} MiB: it would fill the disk",
                        AGAIN,
                    )
    except (OSError, EOFError, zlib.error):
        raise InputError(str(bundle), f"{RECORDS} is not a file of records, or is damaged", AGAIN) from None


def _sort(directory: Path, destinations: dict[str, Path], imported: Imported) -> list[str]:
    """Record the unchanged files; returns the members whose files exist with other content.

    Raises:
        InputError: a path has a link or directory, or a parent that is not a directory.
    """
    differing = []
    for member, path in destinations.items():
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not above.is_dir() or path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(str(path), "exists and is not a plain file", "move it away, or import --into elsewhere")
        if path.is_file():
            if digest_file(path) == digest_file(directory / member):
                imported.unchanged.append(path)
            else:
                differing.append(member)
    return differing
