"""Results that Snakemake takes for up to date but that are outdated by their jobs' records.

Snakemake decides by its own records and by times. It does not detect altered results, and without its records it does not
detect changes of options, code or sources. Such jobs are forced.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from tvmake.engine.up_to_date.changes import altered_results, changes
from tvmake.engine.up_to_date.metadata import recorded_outputs
from tvmake.plan.plan import Job
from tvmake.process.output import counted
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import has_job_records, record_file, record_of

MOST_NAMED = 10
"""Maximum number of altered results listed in the message."""


def outdated_results(jobs: Iterable[Job]) -> list[str]:
    """The results to force: those that Snakemake does not recognise as outdated, and those that are :func:`missing_results`.

    A failed job has no record, and a damaged record counts as none; results that such a job would have made are ignored.
    """
    jobs = list(jobs)
    noted = recorded_outputs()
    results: list[str] = []
    for job in jobs:
        record = record_of(job.outputs)
        if record is None:
            results += filter(os.path.exists, job.outputs)
        elif names := altered_results(record):
            results += names
        elif not noted.issuperset(job.outputs) and changes(job):
            results += filter(os.path.exists, job.outputs)
    return [*results, *missing_results(jobs)]


def missing_results(jobs: Iterable[Job]) -> list[str]:
    """Results that are missing since their job failed, although other results were made from them.

    After a failed job, Snakemake records its inputs, takes it for done, and takes the results made from its earlier outputs for up to date.
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
    """Whether a result exists or existed: its record stays if the file is removed, and is deleted if its job fails."""
    return os.path.exists(name) or record_file(name).exists()  # noqa: PTH110  # of thousands


def note_outdated(names: Sequence[str]) -> None:
    """Report results that are rebuilt because they were altered or have no record."""
    records = {name: record_of([name]) for name in names if os.path.exists(name)}  # noqa: PTH110
    if unknown := [name for name, record in records.items() if record is None]:
        reason = (
            "a run was stopped, or an earlier release made them"
            if has_job_records()
            else f"the records are in {SNAKEMAKE_STATE}/: copy it together with the results"
        )
        results = f"{counted(len(unknown), 'result')} without a record, such as {unknown[0]}"
        print(f"note: rebuilding {results}: {reason}", file=sys.stderr)
    changed = [name for name, record in records.items() if record and name in altered_results(record)]
    for name in changed[:MOST_NAMED]:
        print(f"note: {name} was altered, and is rebuilt", file=sys.stderr)
    if len(changed) > MOST_NAMED:
        print(f"note: and {len(changed) - MOST_NAMED} more", file=sys.stderr)
