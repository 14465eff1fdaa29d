"""Snakemake's records of finished jobs: one that cannot be read is removed before Snakemake meets it.

Snakemake overlooks a record that is cut short or that another version wrote, and ends with an error over one with a byte that
is no text, or a value of another kind. Without a record it goes by times alone, and sees no change of options or code: results
that have none are made again (:mod:`tvmake.engine.up_to_date.altered`).
"""

import ast
import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.persistence import RECORD_FORMAT_VERSION

from tvmake.errors import MachineError
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import remove_note
from tvmake.storage.permissions import DENIED, how_to_permit, owner_name
from tvmake.storage.plain_files import open_plain

FINISHED, INCOMPLETE = "metadata", "incomplete"
"""The directories of records: what finished jobs were made of, and which jobs have begun."""

LONGEST_NAME = 254
"""Characters of a record's name: with the ``@`` as many as file systems have room for."""

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
    """Remove the records that Snakemake could not read, or not go by, with a note; the jobs they stand for run again.

    Raises:
        MachineError: one may not be read.
    """
    damaged = [path for path in _files(state / FINISHED) if not _is_whole(path)]
    damaged += [path for path in _files(state / INCOMPLETE) if not _is_readable(_content(path))]
    damaged += [path for kind in (FINISHED, INCOMPLETE) for path in _other_directories(state / kind)]
    for path in damaged:
        remove_note(Path(path))
    if damaged:
        several = len(damaged) > 1
        count, stood = (f"{len(damaged)} records", "they stood") if several else ("a record", "it stood")
        print(
            f"note: Snakemake's notes held {count} that cannot be read; what {stood} for is made again", file=sys.stderr
        )


def recorded_outputs(state: Path = SNAKEMAKE_STATE) -> set[str]:
    """The results of which Snakemake has a record, named as its rules name them.

    A record's place is the result's name in base64, in directories with an ``@`` where a file system would find it too long
    (``FilePersistence`` in Snakemake's ``persistence/file.py``).
    """
    place = f"{state / FINISHED}/"
    coded = ["".join(part.removeprefix("@") for part in path[len(place) :].split("/")) for path in _files(place)]
    return {name for text in coded if (name := _decoded(text)) is not None}


@dataclass(frozen=True)
class FinishedJob:
    """What Snakemake noted of the job that made a result."""

    rule: str
    command: str
    code: str
    """The rule's command, with the names of its inputs and parameters left in."""
    inputs: tuple[str, ...]
    parameters: tuple[Any, ...]
    """The values, without names, of those that are not made from inputs."""
    digests: Mapping[str, str]
    """sha256 of those inputs that it read to compare them later."""
    began: float
    ended: float
    """In seconds since 1970."""


def finished_job(output: str, state: Path = SNAKEMAKE_STATE) -> FinishedJob | None:
    """What is noted of the job that made ``output``; None where nothing is, or nothing that can be read.

    Raises:
        MachineError: it is there, and may not be read.
    """
    record = _content(str(_record_file(output, state)))
    if not _is_readable(record) or any(record.get(name) is None for name in ESSENTIAL):
        return None
    return FinishedJob(
        rule=record["rule"],
        command=" ".join(record["shellcmd"].split()),
        code=record["code"],
        inputs=tuple(record["input"]),
        parameters=tuple(map(_literal, record["params"])),
        digests={name: str(digest).removeprefix("sha256:") for name, digest in record["input_checksums"].items()},
        began=record.get("starttime") or 0.0,
        ended=record.get("endtime") or 0.0,
    )


def _record_file(output: str, state: Path) -> Path:
    code = base64.urlsafe_b64encode(output.encode()).decode()
    *directories, name = (code[start : start + LONGEST_NAME] for start in range(0, len(code), LONGEST_NAME))
    return state.joinpath(FINISHED, *(f"@{directory}" for directory in directories), name)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError):
        return text


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
        return f"it belongs to {owner_name(owner)}, for whom `chmod -R a+rX {SNAKEMAKE_STATE / FINISHED}` lets others see; `tvmake show` prints the results"
    return how_to_permit(record, os.R_OK)


def _is_whole(path: str) -> bool:
    record = _content(path)
    return (
        _is_readable(record)
        and record.keys() >= KINDS.keys()
        and all(record[name] is not None for name in ESSENTIAL)
        and record["record_format_version"] == RECORD_FORMAT_VERSION
        and all(map(_is_digest, record["input_checksums"].values()))
    )


def _is_digest(value: Any) -> bool:
    """Whether Snakemake can compare a file with a digest: it asks hashlib for whatever stands before the colon."""
    return isinstance(value, str) and value.partition(":")[0] in hashlib.algorithms_guaranteed


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
