"""Snakemake's records of finished jobs: one that cannot be read is removed before Snakemake meets it.

Snakemake overlooks a record that is cut short or that another version wrote, and ends with an error over one with a byte that
is no text, or a value of another kind. Its records may be removed at any time: those of tvmake's jobs decide then
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
"""The directories of records: what finished jobs were made of, and which jobs have begun."""

ESSENTIAL = ("rule", "input", "shellcmd", "params", "code", "record_format_version", "input_checksums")
"""What Snakemake decides by: where it finds none of it, it takes the job for one that has not changed."""


def remove_damaged_records(state: Path = SNAKEMAKE_STATE) -> None:
    """Remove the records that Snakemake could not read, or not go by, with a note.

    Raises:
        MachineError: one may not be read, or something else than a file is in its place.
    """
    for path in (path for kind in (FINISHED, INCOMPLETE) for path in _other_directories(state / kind)):
        remove_note(Path(path))
    damaged = [path for path in _files(state / FINISHED) if not _is_whole(path)]
    damaged += [path for path in _files(state / INCOMPLETE) if _record(path) is None]
    for path in damaged:
        remove_note(Path(path))
    if damaged:
        count = counted(len(damaged), "record")
        print(
            f"note: {count} of Snakemake's cannot be read, and {'are' if len(damaged) > 1 else 'is'} removed",
            file=sys.stderr,
        )


def recorded_outputs(state: Path = SNAKEMAKE_STATE) -> set[str]:
    """The results of which Snakemake has a record, named as its rules name them.

    A record's place is the result's name in base64, in directories with an ``@`` where a file system would find it too long
    (``FilePersistence`` in Snakemake's ``persistence/file.py``).
    """
    place = f"{state / FINISHED}/"
    coded = ["".join(part.removeprefix("@") for part in path[len(place) :].split("/")) for path in _files(place)]
    return {name for text in coded if (name := _decoded(text)) is not None}


def _decoded(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text).decode()
    except ValueError:
        return None


def _files(place: Path | str) -> Iterator[str]:
    for directory, _, names in os.walk(place):
        yield from (os.path.join(directory, name) for name in names)  # noqa: PTH118  # of tens of thousands


def _other_directories(place: Path) -> list[str]:
    """The directories among records that Snakemake does not make, where it wants to write a record."""
    return [
        path
        for directory, below, _ in os.walk(place)
        for name in below
        if (path := os.path.join(directory, name)) and (not name.startswith("@") or os.path.islink(path))  # noqa: PTH114, PTH118
    ]


def _content(path: str) -> Any:
    """What a record says; None where it is not JSON, or no file.

    Raises:
        MachineError: it may not be read. Everything would look outdated.
    """
    try:
        with open_plain(path) as file:
            return json.loads(file.read())
    except OSError as error:
        if error.errno not in DENIED:
            return None
        problem = "may not be read, so that nothing can be told of what is up to date"
        raise MachineError(path, problem, _how_to_share(Path(path))) from None
    except (ValueError, RecursionError):
        return None


def _how_to_share(record: Path) -> str:
    """What to do about a record that may not be read: Snakemake gives those of a run to its user and group alone."""
    if record.exists() and (owner := record.stat().st_uid) != os.geteuid():
        return f"it belongs to {owner_name(owner)}, for whom `chmod -R a+rX {SNAKEMAKE_STATE / FINISHED}` lets others see; `tvmake status results` prints the table"
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
    """Whether Snakemake can compare a file with a digest: it asks hashlib for whatever stands before the colon."""
    return isinstance(value, str) and value.partition(":")[0] in hashlib.algorithms_guaranteed


def _record(path: str) -> MetadataRecord | None:
    """A record as Snakemake reads it; None where it would not."""
    content = _content(path)
    try:
        return MetadataRecord.model_validate(content) if isinstance(content, dict) else None
    except ValueError:
        return None
