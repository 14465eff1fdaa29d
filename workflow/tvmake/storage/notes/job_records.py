"""What a finished job read and made, by content: a record for each of its outputs, written when the job has succeeded.

A job that runs again loses its records first, so one that fails leaves nothing that makes it look done. By its record, a result
that was altered since, or made of something that has changed since, is told from one that is as it was made, whatever the files'
times say. A job reads no result that is not as it was made.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import digest_bytes
from tvmake.storage.notes.known_digests import digest_of, stamp_of
from tvmake.storage.notes.state_file import read_note, remove_note, state_in, write_state
from tvmake.storage.permissions import unreadable

RECORDS = SNAKEMAKE_STATE / "tvmake-jobs"
FORM = 1
"""Of the records; another one is not read."""


@dataclass(frozen=True)
class JobRecord:
    """What a job read and made: sha256 by path, as the job was given it; of a directory, over names and contents of its files."""

    inputs: Mapping[str, str]
    """As they were when the job began; empty for one that changed meanwhile."""
    outputs: Mapping[str, str]


@contextmanager
def recorded(inputs: Iterable[Path], outputs: Iterable[Path]) -> Iterator[None]:
    """Record what is read and made inside this block, if it ends without an error.

    Args:
        inputs: files and directories that the job reads; those that are results have to be as they were made.
        outputs: files and directories that are made.

    Raises:
        InputError: an input is the result of a job, and is not as that job left it; or it cannot be read.
        MachineError: the record cannot be written.
    """
    read, made = [path for path in inputs if path.exists()], list(outputs)
    forget(map(str, made))
    before = {path: _state(path) for path in read}
    for path, (_, digest) in before.items():
        _check(path, digest)
    yield
    record = JobRecord(
        {str(path): digest if stamp_of(path) == stamp else "" for path, (stamp, digest) in before.items()},
        {str(path): digest_of(path) for path in made if path.exists()},
    )
    for path in made:
        # Aside: every writer lists the directory that it writes in, and there are thousands of records.
        write_state(record_file(str(path)), FORM, asdict(record), aside=SNAKEMAKE_STATE)


def _state(path: Path) -> tuple[str, str]:
    try:
        return stamp_of(path), digest_of(path)
    except OSError as error:
        raise unreadable(path, error) from None


def _check(path: Path, digest: str) -> None:
    record = record_of([str(path)])
    if record and record.outputs.get(str(path), digest) != digest:
        raise InputError(
            str(path),
            "not as it was made: the job that makes it left another content",
            "`tvmake make` makes it again; with snakemake itself, remove the file first",
        )


def record_of(outputs: Iterable[str], project: Path = Path()) -> JobRecord | None:
    """The record of the job that makes ``outputs``; None where one of them has none, or a damaged one.

    Args:
        outputs: some or all that the job makes, as it was given them.
        project: the directory that the job ran in.
    """
    records = str(project / RECORDS)
    notes = {read_note(_place(name, records)) for name in outputs}
    return _record(notes.pop()) if len(notes) == 1 else None


def forget(outputs: Iterable[str]) -> None:
    """Remove the records of outputs, which do not count as made then."""
    for name in outputs:
        remove_note(record_file(name))


def has_job_records(project: Path = Path()) -> bool:
    """Whether jobs that ran in a directory have left records."""
    return (project / RECORDS).is_dir() and any((project / RECORDS).iterdir())


def record_file(output: str) -> Path:
    """Where the record of the job that makes ``output`` is kept."""
    return Path(_place(output))


def _place(output: str, records: str = str(RECORDS)) -> str:
    return f"{records}/{digest_bytes(output.encode(errors='surrogateescape'))}.json"


def _record(note: str) -> JobRecord | None:
    kept = state_in(note, FORM)
    try:
        return JobRecord(
            *({str(name): str(digest) for name, digest in kept[key].items()} for key in ("inputs", "outputs"))
        )
    except (TypeError, KeyError, AttributeError):
        return None
