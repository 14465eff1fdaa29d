"""The results that Snakemake would take for up to date, and that are not by the records of their jobs.

Snakemake decides by its own records and by times. It does not see that a result was altered, and without its records it sees no
change of options, code or sources; such jobs are forced.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from tvmake.engine.up_to_date.changes import altered, changes
from tvmake.engine.up_to_date.metadata import recorded_outputs
from tvmake.plan.plan import Job
from tvmake.process.output import counted
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import has_job_records, record_file, record_of

MOST_NAMED = 10
"""Maximum number of altered results listed in the message."""


def outdated(jobs: Iterable[Job]) -> list[str]:
    """The results to force: those that Snakemake does not see to be outdated, and those that are :func:`undone`.

    A job that failed has no record, and neither has one whose record is damaged; what it would have made does not count.
    """
    jobs = list(jobs)
    noted = recorded_outputs()
    found: list[str] = []
    for job in jobs:
        record = record_of(job.outputs)
        if record is None:
            found += filter(os.path.exists, job.outputs)
        elif names := altered(record):
            found += names
        elif not noted.issuperset(job.outputs) and changes(job):
            found += filter(os.path.exists, job.outputs)
    return [*found, *undone(jobs)]


def undone(jobs: Iterable[Job]) -> list[str]:
    """The results that are missing since their job has failed, though something is there that was made of them.

    Snakemake notes of a failed job what it has read, takes it for done, and what was made of its earlier results for up to date.
    """
    read: set[str] = set()
    missing: list[str] = []
    for job in jobs:
        if record := record_of(job.outputs):
            read.update(record.inputs)
        else:
            missing += (name for name in job.outputs if not os.path.exists(name))  # noqa: PTH110  # of tens of thousands
    return [name for name in missing if name in read]


def was_made(name: str) -> bool:
    """Whether a result is there, or was: its record stays where a file is removed, and goes where its job fails."""
    return os.path.exists(name) or record_file(name).exists()  # noqa: PTH110  # of thousands


def note_outdated(names: Sequence[str]) -> None:
    """Say which results are made again because they are not as they were made, or because nothing is known of them."""
    records = {name: record_of([name]) for name in names if os.path.exists(name)}  # noqa: PTH110
    if unknown := [name for name, record in records.items() if record is None]:
        why = (
            "as after a run that was stopped, or by an earlier release"
            if has_job_records()
            else f"the records lie in {SNAKEMAKE_STATE}/, which goes with the results where they are copied"
        )
        results = f"{counted(len(unknown), 'result')} came about, such as {unknown[0]}: made again"
        print(f"note: nothing is known of how {results}; {why}", file=sys.stderr)
    changed = [name for name, record in records.items() if record and name in altered(record)]
    for name in changed[:MOST_NAMED]:
        print(f"note: {name} is not as it was made, and is made again", file=sys.stderr)
    if len(changed) > MOST_NAMED:
        print(f"note: and so are {len(changed) - MOST_NAMED} more", file=sys.stderr)
