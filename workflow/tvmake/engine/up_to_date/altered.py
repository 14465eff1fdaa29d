"""Results that are not as they were made, or made of what has changed since, by the records of their jobs.

Snakemake looks at an input's content where the input is newer than what was made of it. Where clocks differ, or a file was
copied with its old time, it does not; so outputs whose inputs have changed are given an old time, which has Snakemake look.
"""

import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tvmake.engine.up_to_date.metadata import recorded_outputs
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job, Plan, Variant
from tvmake.plan.wanted import EVERYTHING
from tvmake.process.output import counted
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import JobRecord, has_job_records, record_file, record_of

LONG_AGO_S = 1
"""A time that nothing else has, in seconds since 1970."""

DIRECTORY_TIME = ".snakemake_timestamp"
"""Snakemake's name for the file in a directory whose time it takes for the directory's."""

NOTED = 10
"""So many altered results are named."""


def jobs_of(plan: Plan, variants: Iterable[Variant]) -> list[Job]:
    """The jobs of variants and the report, each once, in the order in which data flows."""
    jobs = [*(job for variant in variants for job in plan.jobs(variant)), *plan.run_jobs()]
    return list({job.outputs: job for job in jobs}.values())


def needed_for(wanted: Iterable[str], jobs: Sequence[Job]) -> list[Job]:
    """The jobs that files or rules need, in the order given; all jobs where nothing is named, or the rule that gathers them.

    Args:
        jobs: of whole variants, those before others included.
    """
    pending = [os.path.normpath(word) for word in wanted]
    if not pending or EVERYTHING in pending:
        return list(jobs)
    makers = {name: job for job in jobs for name in (job.rule, *job.outputs)}
    found: set[tuple[str, ...]] = set()
    while pending:
        job = makers.get(pending.pop())
        if job and job.outputs not in found:
            found.add(job.outputs)
            pending += job.inputs
    return [job for job in jobs if job.outputs in found]


def with_records(jobs: Iterable[Job]) -> list[tuple[Job, JobRecord | None]]:
    """Jobs and their records; None for a job that has none, or a damaged one."""
    return [(job, record_of(job.outputs)) for job in jobs]


def altered(jobs: Iterable[Job]) -> list[str]:
    """The results that are there and are not known to be as their jobs left them, and those that are :func:`undone`.

    A job that failed has no record, and neither has one whose record is damaged; what it would have made does not count. Nor does
    a result without a record of Snakemake's: whether its options or its code have changed since, nobody knows.
    Where there are no records of jobs at all, Snakemake decides by its own about the results that it has one of.
    """
    known = recorded_outputs()
    if not has_job_records():
        return [
            name for job in jobs if not known.issuperset(job.outputs) for name in filter(os.path.exists, job.outputs)
        ]
    found: list[str] = []
    recorded = with_records(jobs)
    for job, record in recorded:
        if record and known.issuperset(job.outputs):
            found += _other_than(record.outputs)
        else:
            found += filter(os.path.exists, job.outputs)
    return [*found, *undone(recorded)]


def undone(recorded: Iterable[tuple[Job, JobRecord | None]]) -> list[str]:
    """The results that are missing since their job has failed, though something is there that was made of them.

    Snakemake notes of a failed job what it has read, takes it for done, and what was made of its earlier results for up to date.
    """
    read: set[str] = set()
    missing: list[str] = []
    for job, record in recorded:
        if record:
            read.update(record.inputs)
        else:
            missing += (name for name in job.outputs if not os.path.exists(name))  # noqa: PTH110  # of tens of thousands
    return [name for name in missing if name in read]


def was_made(name: str) -> bool:
    """Whether a result is there, or was: its record stays where a file is removed, and goes where its job fails."""
    return os.path.exists(name) or record_file(name).exists()  # noqa: PTH110  # of thousands


def note_altered(names: Sequence[str]) -> None:
    """Say which results are made again because they are not as they were made; those that are missing need no word."""
    names = [name for name in names if os.path.exists(name)]  # noqa: PTH110
    known = recorded_outputs()
    if unknown := [name for name in names if name not in known]:
        why = (
            "as where a run was stopped before it took note of them"
            if known
            else f"the records lie in {SNAKEMAKE_STATE}/, which goes with the results where they are copied"
        )
        results = f"{counted(len(unknown), 'result')} came about, such as {unknown[0]}: made again"
        print(f"note: nothing is known of how {results}; {why}", file=sys.stderr)
    changed = [name for name in names if name in known]
    for name in changed[:NOTED]:
        print(f"note: {name} is not as it was made, and is made again", file=sys.stderr)
    if len(changed) > NOTED:
        print(f"note: and so are {len(changed) - NOTED} more", file=sys.stderr)


def mend_times_of_sources(jobs: Iterable[Job]) -> list[str]:
    """Give the present time to sources with one in the future, which Snakemake takes for a mistake; returns their names."""
    now = time.time()
    found = [name for name in dict.fromkeys(name for job in jobs for name in job.sources) if _time(name) > now]
    _set_time(found, now)
    return found


def mend_times(recorded: Iterable[tuple[Job, JobRecord | None]]) -> None:
    """Give an old time to results that were made of something else than what is there now, and none a time in the future.

    Snakemake refuses results that are older than what they were made of, and links that lead to themselves: those are removed.
    """
    now = time.time()
    for job, record in recorded:
        _remove_circles(job.outputs)
        if record and any(True for _ in _other_than(record.inputs)):
            _set_time(job.outputs, LONG_AGO_S)
        else:
            _set_time((name for name in job.outputs if _time(name) > now), now)


def _other_than(recorded: Mapping[str, str]) -> Iterator[str]:
    """The files that are there and have another content, or are no files."""
    digests = known_digests()
    for name, digest in recorded.items():
        if os.path.exists(name) and not digests.has(name, digest):  # noqa: PTH110  # of tens of thousands
            yield name


def _time(name: str) -> float:
    """When a result was made, for Snakemake: a directory's time is that of a file in it."""
    for path in (f"{name}/{DIRECTORY_TIME}", name):
        try:
            return os.stat(path).st_mtime  # noqa: PTH116  # of tens of thousands
        except OSError:  # not there, no directory, or a link that leads nowhere
            continue
    return 0.0


def _remove_circles(names: Iterable[str]) -> None:
    for name in names:
        if os.path.islink(name):  # noqa: PTH114  # of tens of thousands
            try:
                os.stat(name)  # noqa: PTH116
            except OSError as error:
                if error.errno == errno.ELOOP:
                    Path(name).unlink()


def _set_time(names: Iterable[str], seconds: float) -> None:
    for name in names:
        for path in (name, f"{name}/{DIRECTORY_TIME}"):
            with suppress(OSError):
                os.utime(path, (seconds, seconds))
