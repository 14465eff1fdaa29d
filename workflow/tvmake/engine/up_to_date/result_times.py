"""Times of results that agree with the records of their jobs, for Snakemake, which compares times first.

Times are set on results alone; those of the user's files do not count, because no rule names such a file as its input.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from tvmake.engine.up_to_date.metadata import recorded_outputs
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job
from tvmake.storage.notes.job_records import JobRecord, record_of

LONG_AGO_S = 1
"""A time that nothing else has, in seconds since 1970."""

DIRECTORY_TIME = ".snakemake_timestamp"
"""Snakemake's name for the file in a directory whose time it takes for the directory's."""


def set_result_times(jobs: Iterable[Job]) -> None:
    """Have Snakemake look at results whose inputs have changed, and at no others.

    Snakemake compares the content of an input only where it is newer than what was made of it, and refuses results that are older
    than their inputs. So results of changed inputs get an old time, and no result has a time in the future. A result of which
    Snakemake has no record is judged by its time alone, so one that is up to date is made newer than its inputs.

    Args:
        jobs: in the order in which data flows.
    """
    now, noted = time.time(), recorded_outputs()
    for job in jobs:
        record = record_of(job.outputs)
        if record and _has_changed_input(record):
            _set_time(job.outputs, LONG_AGO_S)
            continue
        latest = now
        if record and not noted.issuperset(job.outputs):
            results = set(job.inputs).difference(job.sources)
            if max(map(_time, results), default=0.0) > min(map(_time, job.outputs)):
                latest = 0.0
        _set_time((name for name in job.outputs if _time(name) > latest), now)


def _has_changed_input(record: JobRecord) -> bool:
    digests = known_digests()
    return any(
        os.path.exists(name) and not digests.has(name, digest)  # noqa: PTH110  # of tens of thousands
        for name, digest in record.inputs.items()
    )


def _time(name: str) -> float:
    """When a result was made, for Snakemake: a directory's time is that of a file in it."""
    for path in (f"{name}/{DIRECTORY_TIME}", name):
        try:
            return os.stat(path).st_mtime  # noqa: PTH116  # of tens of thousands
        except OSError:  # not there, no directory, or a link that leads nowhere
            continue
    return 0.0


def _set_time(names: Iterable[str], seconds: float) -> None:
    for name in names:
        for path in (name, f"{name}/{DIRECTORY_TIME}"):
            with suppress(OSError):
                os.utime(path, (seconds, seconds))
