"""Snakemake's records of finished jobs: one that cannot be read is removed before Snakemake meets it.

Snakemake overlooks a record that is cut short or that another version wrote, and ends with an error over one with a byte that
is no text, or a value of another kind. Without a record it goes by times alone, and sees no change of options or code: results
that have none are made again (:mod:`tvmake.engine.up_to_date.altered`).
"""

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snakemake.persistence import RECORD_FORMAT_VERSION

from tvmake.storage.directories import SNAKEMAKE_STATE

FINISHED, INCOMPLETE = "metadata", "incomplete"
"""The directories of records: what finished jobs were made of, and which jobs have begun."""

KINDS: dict[str, tuple[type, ...]] = {
    "rule": (str,),
    "input": (list,),
    "log": (list,),
    "shellcmd": (str,),
    "params": (list,),
    "code": (str,),
    "record_format_version": (int,),
    "conda_env": (str,),
    "container_img_url": (str,),
    "software_stack_hash": (str,),
    "job_hash": (int,),
    "starttime": (int, float),
    "endtime": (int, float),
    "incomplete": (bool,),
    "external_jobid": (str,),
    "input_checksums": (dict,),
}
"""What the values of a record are; those that :data:`ESSENTIAL` names are never null in that of a finished job."""

ESSENTIAL = ("rule", "input", "shellcmd", "params", "code", "record_format_version", "input_checksums")
"""What Snakemake decides by: where it finds none of it, it takes the job for one that has not changed."""


def remove_damaged_records(state: Path = SNAKEMAKE_STATE) -> None:
    """Remove the records that Snakemake could not read, or not go by, with a note; the jobs they stand for run again."""
    damaged = [path for path in _files(state / FINISHED) if not _is_whole(path)]
    damaged += [path for path in _files(state / INCOMPLETE) if not _is_readable(_content(path))]
    for path in damaged:
        path.unlink(missing_ok=True)
    if damaged:
        count = f"{len(damaged)} records" if len(damaged) > 1 else "a record"
        print(
            f"note: Snakemake's notes held {count} that cannot be read; what it stood for is made again",
            file=sys.stderr,
        )


def recorded_outputs(state: Path = SNAKEMAKE_STATE) -> set[str]:
    """The results of which Snakemake has a record, named as its rules name them.

    A record's place is the result's name in base64, in directories with an ``@`` where a file system would find it too long
    (``FilePersistence`` in Snakemake's ``persistence/file.py``).
    """
    place = state / FINISHED
    coded = ["".join(part.removeprefix("@") for part in path.relative_to(place).parts) for path in _files(place)]
    return {name for text in coded if (name := _decoded(text)) is not None}


def _decoded(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text).decode()
    except ValueError:
        return None


def _files(place: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(place):
        yield from (Path(directory) / name for name in names)


def _content(path: Path) -> Any:
    """What a record says; None where it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def _is_whole(path: Path) -> bool:
    record = _content(path)
    return (
        _is_readable(record)
        and record.keys() >= KINDS.keys()
        and all(record[name] is not None for name in ESSENTIAL)
        and record["record_format_version"] == RECORD_FORMAT_VERSION
    )


def _is_readable(record: Any) -> bool:
    return isinstance(record, dict) and all(
        _is(record[name], kinds, name) for name, kinds in KINDS.items() if name in record
    )


def _is(value: Any, kinds: tuple[type, ...], name: str) -> bool:
    if isinstance(value, list) and list in kinds:
        return all(isinstance(entry, str) for entry in value)
    if value is None:
        return name != "record_format_version"
    return isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
