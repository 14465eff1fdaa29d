"""From a bundle to files and records: everything is checked before anything is placed."""

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
from tvmake.provenance.check import beside, check_package
from tvmake.records.sharing.exchange import import_records
from tvmake.records.sharing.ingest import Ingested
from tvmake.records.sharing.portable import FREE_BYTES, MOST_RATIO
from tvmake.records.store import RecordStore
from tvmake.storage.files import atomic_path, digest_file, scratch_directory, writing
from tvmake.storage.tar import extract, read_tar

NO_INPUTS = {LOCK, CONFIG, RECORDS, CONTENTS, PACKAGES.rstrip("/"), "profiles", "rules", "snakefile", "workflow"}
"""What no input is called: it would be a part of the bundle, or of a workflow, which runs."""


@dataclass
class Imported:
    """What became of a bundle."""

    contents: Contents
    placed: list[Path] = field(default_factory=list)
    unchanged: list[Path] = field(default_factory=list)
    """Files that were there already, byte for byte."""
    replaced: list[Path] = field(default_factory=list)
    records: Ingested | None = None


def read_bundle(bundle: Path, into: Path, store: RecordStore, *, replace: bool = False) -> Imported:
    """Check a bundle, add its records to the store, and place its files; doing so again changes nothing.

    Args:
        into: the directory for config, lock, packages and inputs; made if it is not there.
        replace: put the bundle's files over others of the same name.

    Raises:
        InputError: the bundle is truncated, altered, unsafe, of another version, or files of the same name are there
            that differ. Nothing is placed then.
        MachineError: the directory or the store cannot be written.
    """
    if into.exists() and not into.is_dir():
        raise InputError(str(into), "is no directory", "name one with --into")
    nearest = next(parent for parent in (into, *into.absolute().parents) if parent.is_dir())
    with writing(into), scratch_directory(nearest) as unpacked:
        contents = _unpack(bundle, unpacked)
        _check(bundle, unpacked, contents)
        imported = Imported(contents)
        places = {member: into / _place(member) for member in contents.files if member != RECORDS}
        differing = _sort(unpacked, places, imported)
        if differing and not replace:
            more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
            raise InputError(
                str(into / _place(differing[0])),
                f"is there and differs from the bundle's{more}; nothing was placed",
                "import into another directory with --into, or put the bundle's over it with --replace",
            )
        if RECORDS in contents.files:
            imported.records = import_records(store, unpacked / RECORDS)
        for member, place in places.items():
            if place in imported.unchanged:
                continue
            (imported.replaced if member in differing else imported.placed).append(place)
            with atomic_path(place) as temporary:
                shutil.copyfile(unpacked / member, temporary)
    return imported


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle, be it damaged or of another version."""
    try:
        return next(read_tar(file, "bundle", AGAIN, nested=True)).name == CONTENTS
    except (InputError, StopIteration):
        return False


def _unpack(bundle: Path, directory: Path) -> Contents:
    """Extract into an empty directory, member by member, each checked as soon as it is there."""
    contents: Contents | None = None
    extracted: dict[str, FileEntry] = {}
    for member in read_tar(bundle, "bundle", AGAIN, nested=True):
        if member.name == CONTENTS:
            if member.size > MOST_CONTENTS_BYTES:
                raise InputError(str(bundle), f"{CONTENTS} has {member.size} bytes", AGAIN)
            contents = parse_contents(member.read(member.size), bundle)
            continue
        _place(member.name, bundle)
        if contents is None:
            # Sorted as they are written, bundle.json is the first.
            raise InputError(
                str(bundle), f"does not begin with {CONTENTS}: no bundle, or not as tvmake wrote it", AGAIN
            )
        entry = contents.files.get(member.name)
        if entry is None:
            raise InputError(str(bundle), f"holds {member.name!r}, which {CONTENTS} does not name", AGAIN)
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


def _place(member: str, bundle: Path | None = None) -> str:
    """Where a member goes, below the directory of the import.

    Raises:
        InputError: a bundle has no such member.
    """
    if member in (LOCK, CONFIG, RECORDS):
        return member
    # A hidden file may be one that other programs obey.
    is_hidden = any(part.startswith(".") for part in member.split("/"))
    if member.startswith(PACKAGES) and not is_hidden:
        return member
    name = member.removeprefix(INPUTS)
    if name == member or is_hidden or name.split("/")[0].casefold() in NO_INPUTS:
        raise InputError(str(bundle or member), f"holds {member!r}, which is no part of a bundle", AGAIN)
    return name


def _check(bundle: Path, directory: Path, contents: Contents) -> None:
    """The lock, and that packages and inputs are those that it names.

    Raises:
        InputError: something is missing, damaged, or not the lock's.
    """
    for name in (LOCK, CONFIG):
        if name not in contents.files:
            raise InputError(str(bundle), f"holds no {name}", AGAIN)
    try:
        locked = read_lock(directory / LOCK)
    except InputError as error:
        raise InputError(f"{bundle}: {LOCK}", error.problem, error.remedy) from None
    if (directory / CONFIG).read_bytes() != config_text(locked).encode():
        raise InputError(str(bundle), f"{CONFIG} is not the config that its lock names", AGAIN)
    named = {PACKAGES + entry.path for entry in locked.artifacts if entry.path.endswith("/package.tar")}
    if missing := sorted(named - set(contents.files)):
        raise InputError(str(bundle), f"holds no {missing[0]}, which its lock names", AGAIN)
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
        if not package.is_file() or directory / name not in beside(package):
            raise InputError(str(bundle), f"holds {name!r}, which belongs to no package", AGAIN)
        return
    if entry.sha256 not in {one.sha256 for one in locked.artifacts if one.path == path}:
        raise InputError(str(bundle), f"{name} is not the package that its lock names", AGAIN)
    try:
        check_package(directory / name)
    except InputError as error:
        raise InputError(f"{bundle}: {name}", error.problem, error.remedy) from None


def _refuse_bomb(bundle: Path, records: Path) -> None:
    allowed = max(FREE_BYTES, MOST_RATIO * records.stat().st_size)
    found = 0
    try:
        with gzip.open(records) as file:
            while block := file.read(1 << 20):
                found += len(block)
                if found > allowed:
                    raise InputError(
                        str(bundle),
                        f"{RECORDS} unpacks to more than {allowed >> 20} MiB: it is made to fill disks",
                        AGAIN,
                    )
    except (OSError, EOFError, zlib.error):
        raise InputError(str(bundle), f"{RECORDS} is no file of records, or damaged", AGAIN) from None


def _sort(directory: Path, places: dict[str, Path], imported: Imported) -> list[str]:
    """Notes what is there already; gives the members whose place another file has.

    Raises:
        InputError: something else than a file is in a place, or above it something else than a directory.
    """
    differing = []
    for member, place in places.items():
        above = next(parent for parent in place.absolute().parents if parent.exists())
        if not above.is_dir() or place.is_symlink() or (place.exists() and not place.is_file()):
            raise InputError(str(place), "is there, and is no plain file", "move it away, or import --into elsewhere")
        if place.is_file():
            if digest_file(place) == digest_file(directory / member):
                imported.unchanged.append(place)
            else:
                differing.append(member)
    return differing
