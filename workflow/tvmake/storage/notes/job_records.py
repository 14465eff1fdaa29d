"""Records of finished jobs: the content of their inputs and outputs, and how they were run.

There is one record per output, written when the job succeeds. A job that starts removes its records first, so a failed job leaves no
outputs that look complete. Records decide what is up to date, regardless of modification times. A job refuses altered results as inputs.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvmake.errors import InputError, MachineError
from tvmake.storage.code_fingerprint import fingerprint, parts
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import digest_bytes, digest_file
from tvmake.storage.notes.known_digests import KnownDigests, digest_of, stamp_of
from tvmake.storage.notes.state_file import read_note, read_state, remove_note, state_in, write_state
from tvmake.storage.permissions import DENIED, how_to_permit, unreadable_error

RECORDS = SNAKEMAKE_STATE / "tvmake-jobs"
FORM = 2
"""Version of the format; records of other versions are ignored."""

LARGE_BYTES = 256 << 20
"""Total size of inputs above which known digests are used instead of reading the files again."""


@dataclass(frozen=True)
class Invocation:
    """Options, parameters, code and command of a job."""

    options: str = ""
    """The request as JSON; empty for a stage without one."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Values other than the options, by name."""
    roots: tuple[str, ...] = ()
    """The root modules of its code."""
    command: str = ""


@dataclass(frozen=True)
class JobRecord:
    """A finished job: sha256 by path as in its command; for a directory, over the names and contents of its files."""

    inputs: Mapping[str, str]
    """Digests when the job began, with the user's files; empty for an input that changed meanwhile."""
    outputs: Mapping[str, str]
    options: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    """Digest of its code and library versions."""
    command: str = ""
    began: float = 0.0
    ended: float = 0.0
    """In seconds since 1970."""


@contextmanager
def record_job(
    inputs: Iterable[Path], outputs: Iterable[Path], invocation: Invocation = Invocation()
) -> Iterator[None]:
    """Record the inputs and outputs of the work in this block, if it ends without an error.

    Args:
        inputs: files and directories that the job reads; results among them must be unaltered.
        outputs: files and directories that the job writes.
        invocation: how the job is run.

    Raises:
        InputError: an input is an altered result of another job, or cannot be read.
        MachineError: the record cannot be written.
    """
    existing, written = [path for path in inputs if path.exists()], list(outputs)
    forget(map(str, written))
    began, code = time.time(), _code(invocation.roots)
    of_file = _digest_function(existing)
    before = {path: _state(path, of_file) for path in existing}
    for path, (_, digest) in before.items():
        _check(path, digest)
    yield
    record = JobRecord(
        inputs={
            str(path): digest if _is_unchanged(path, stamp, digest) else "" for path, (stamp, digest) in before.items()
        },
        outputs={str(path): digest_of(path) for path in written if path.exists()},
        options=invocation.options,
        parameters=dict(invocation.parameters),
        code=code,
        command=invocation.command,
        began=began,
        ended=time.time(),
    )
    for path in written:
        # In another directory: every writer lists its directory, and there are thousands of records.
        write_state(record_file(str(path)), FORM, asdict(record), aside=SNAKEMAKE_STATE)


def _digest_function(files: Iterable[Path]) -> Callable[[Path | str], str]:
    """The function for digests of files: known digests if the files are large, else their contents."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return KnownDigests().digest if size > LARGE_BYTES else digest_file


def _state(path: Path, of_file: Callable[[Path | str], str]) -> tuple[str, str]:
    try:
        return stamp_of(path), digest_of(path, of_file)
    except OSError as error:
        raise unreadable_error(path, error) from None


def _is_unchanged(path: Path, stamp: str, digest: str) -> bool:
    """Whether a file has the content of before. A link to it changes its stamp only."""
    return stamp_of(path) == stamp or digest_of(path) == digest


def _check(path: Path, digest: str) -> None:
    record = record_of([str(path)])
    if record and record.outputs.get(str(path), digest) != digest:
        raise InputError(
            str(path),
            "altered: its content differs from what its job wrote",
            "`tvmake make` rebuilds it; with snakemake itself, remove the file first",
        )


def record_of(outputs: Iterable[str], project: Path = Path()) -> JobRecord | None:
    """The record of the job that writes ``outputs``; None if a record is missing or damaged.

    Args:
        outputs: some or all of the job's outputs, as in its command.
        project: the directory that the job ran in.

    Raises:
        MachineError: a record exists but cannot be read. Everything would look outdated.
    """
    records = str(project / RECORDS)
    notes = {_text(_file(name, records)) for name in outputs}
    return _record(notes.pop()) if len(notes) == 1 else None


def forget(outputs: Iterable[str]) -> None:
    """Remove the records of outputs, which then count as not built."""
    for name in outputs:
        remove_note(record_file(name))


def has_job_records(project: Path = Path()) -> bool:
    """Whether a directory has records of jobs."""
    return (project / RECORDS).is_dir() and any((project / RECORDS).iterdir())


def record_file(output: str) -> Path:
    """The file with the record of the job that writes ``output``."""
    return Path(_file(output))


def code_listing(code: str) -> dict[str, str] | None:
    """The modules and library versions of a record's code digest; None if unknown."""
    listing = read_state(_listing_file(code), FORM)
    return {str(name): str(value) for name, value in listing.items()} if isinstance(listing, dict) else None


def _code(roots: tuple[str, ...]) -> str:
    """The digest of a job's code. Its listing is stored beside the records, once for all jobs with the same code."""
    if not roots:
        return ""
    code = fingerprint(*roots)
    listing = _listing_file(code)
    if not listing.exists():
        with suppress(MachineError, OSError):  # it only makes a message more precise
            write_state(listing, FORM, parts(*roots), aside=SNAKEMAKE_STATE)
    return code


def _listing_file(code: str) -> Path:
    return RECORDS / f"code-{code}.json"


def _file(output: str, records: str = str(RECORDS)) -> str:
    return f"{records}/{digest_bytes(output.encode(errors='surrogateescape'))}.json"


def _text(file: str) -> str:
    text = read_note(file)
    if not text:
        try:
            os.stat(file)  # noqa: PTH116  # of tens of thousands
            is_denied = not os.access(file, os.R_OK)
        except OSError as error:
            is_denied = error.errno in DENIED
        if is_denied:
            problem = "cannot be read, so tvmake cannot tell what is up to date"
            raise MachineError(file, problem, how_to_permit(Path(file), os.R_OK))
    return text


def _record(note: str) -> JobRecord | None:
    fields = state_in(note, FORM)
    try:
        values: dict[str, Any] = {
            name: {str(key): str(value) for key, value in fields[name].items()}
            for name in ("inputs", "outputs", "parameters")
        }
        values |= {name: str(fields[name]) for name in ("options", "code", "command")}
        return JobRecord(**values, began=float(fields["began"]), ended=float(fields["ended"]))
    except (TypeError, KeyError, AttributeError, ValueError):
        return None
