"""Remove Snakemake's job records that it cannot read.

Snakemake ignores a truncated record or one of another version, but ends with an error for a record with a byte that is not text
or a value of the wrong type. Its records may be removed at any time: those of tvmake's jobs decide then
(:mod:`tvmake.engine.up_to_date.outdated`).
"""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snakemake.persistence import RECORD_FORMAT_VERSION, MetadataRecord

from tvmake.errors import MachineError
from tvmake.process.output import counted
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import remove_note
from tvmake.storage.permissions import DENIED, how_to_permit, owner_name
from tvmake.storage.plain_files import open_plain

FINISHED, INCOMPLETE = "metadata", "incomplete"
"""The directories of records: finished jobs, and started jobs."""

ESSENTIAL = ("rule", "input", "shellcmd", "params", "code", "record_format_version", "input_checksums")
"""The values that Snakemake decides by. Without them it assumes that a job has not changed."""


def remove_damaged_records(state: Path = SNAKEMAKE_STATE) -> None:
    """Remove the records that Snakemake cannot read or use, with a note.

    Raises:
        MachineError: a record may not be read, or a directory or link is in its place.
    """
    for name in (name for kind in (FINISHED, INCOMPLETE) for name in _other_directories(state / kind)):
        remove_note(Path(name))
    damaged = [path for path in _files(state / FINISHED) if not _is_whole(path)]
    damaged += [path for path in _files(state / INCOMPLETE) if _record(path) is None]
    for path in map(Path, damaged):
        remove_note(path)
    if damaged:
        count = counted(len(damaged), "record")
        print(f"note: removed {count} of Snakemake's that cannot be read", file=sys.stderr)


def recorded_outputs(state: Path = SNAKEMAKE_STATE) -> set[str]:
    """The results of which Snakemake has a record, named as in its rules.

    A record's path is the result's name in base64, split into directories with an ``@`` if it is too long for a file system
    (``FilePersistence`` in Snakemake's ``persistence/file.py``).
    """
    root = f"{state / FINISHED}/"
    coded = ["".join(part.removeprefix("@") for part in path[len(root) :].split("/")) for path in _files(root)]
    return {name for text in coded if (name := _decode(text)) is not None}


def _decode(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text).decode()
    except ValueError:
        return None


def _files(root: Path | str) -> Iterator[str]:
    for directory, _, names in os.walk(root):
        yield from (os.path.join(directory, name) for name in names)  # noqa: PTH118  # of tens of thousands


def _other_directories(root: Path) -> list[str]:
    """Directories among the records that Snakemake did not create, where it may want to write a record."""
    return [
        path
        for directory, below, _ in os.walk(root)
        for name in below
        if (path := os.path.join(directory, name)) and (not name.startswith("@") or os.path.islink(path))  # noqa: PTH114, PTH118
    ]


def _content(path: str) -> Any:
    """A record's content; None if it is not JSON or not a file.

    Raises:
        MachineError: it cannot be read: everything would look outdated.
    """
    try:
        with open_plain(path) as file:
            return json.loads(file.read())
    except OSError as error:
        if error.errno not in DENIED:
            return None
        problem = "cannot be read, so tvmake cannot tell what is up to date"
        raise MachineError(path, problem, _how_to_share(Path(path))) from None
    except (ValueError, RecursionError):
        return None


def _how_to_share(record: Path) -> str:
    """The remedy for an unreadable record: Snakemake makes records readable for the run's user and group only."""
    if record.exists() and (owner := record.stat().st_uid) != os.geteuid():
        return f"it belongs to {owner_name(owner)}, who can share it with `chmod -R a+rX {SNAKEMAKE_STATE / FINISHED}`; `tvmake status results` prints the table"
    return how_to_permit(record, os.R_OK)


def _is_whole(path: str) -> bool:
    record = _record(path)
    return (
        record is not None
        and not any(record[name] is None for name in ESSENTIAL)
        and record["record_format_version"] == RECORD_FORMAT_VERSION
        and all(map(_is_digest, record["input_checksums"].values()))
    )


def _is_digest(value: Any) -> bool:
    """Whether Snakemake can compare files with a digest: it passes the part before the colon to hashlib."""
    return isinstance(value, str) and value.partition(":")[0] in hashlib.algorithms_guaranteed


def _record(path: str) -> MetadataRecord | None:
    """A record as Snakemake reads it; None if it would refuse."""
    content = _content(path)
    try:
        return MetadataRecord.model_validate(content) if isinstance(content, dict) else None
    except ValueError:
        return None
