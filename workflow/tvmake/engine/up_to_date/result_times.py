"""Set times of results according to their jobs' records, because Snakemake compares times first.

Only times of results are set. Times of the user's files do not matter: no rule has such a file as an input.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job
from tvmake.storage.notes.job_records import JobRecord, record_of

LONG_AGO_S = 1
"""A time that no other file has, in seconds since 1970."""

DIRECTORY_TIME = ".snakemake_timestamp"
"""The file whose time Snakemake uses for its directory."""


def set_result_times(jobs: Iterable[Job]) -> None:
    """Set times so that Snakemake examines exactly the results whose inputs changed.

    Snakemake compares the content of an input only if it is newer than a result, and reruns results that are older
    than their inputs. So results of changed inputs get an old time, and no result has a time in the future. Up-to-date results
    are made newer than their inputs: without a record of Snakemake's, and for large files, only times count.

    Args:
        jobs: in the order of the data flow.
    """
    now = time.time()
    current: list[Job] = []
    for job in jobs:
        record = record_of(job.outputs)
        if record and _has_changed_input(record):
            _set_time(job.outputs, LONG_AGO_S)
            continue
        _set_time((name for name in job.outputs if _time(name) > now), now)
        current += [job] if record else []
    older: list[Job] = []
    while (remaining := list(filter(_is_older, current))) != older:  # files that are missing or not ours stay older
        older = remaining
        for job in older:
            _set_time(job.outputs, now)  # also sets the time of results that are links to the same file


def _is_older(job: Job) -> bool:
    """Whether a job's results are older than results that it read."""
    results = set(job.inputs).difference(job.sources)
    return max(map(_time, results), default=0.0) > min(map(_time, job.outputs))


def _has_changed_input(record: JobRecord) -> bool:
    digests = known_digests()
    return any(
        os.path.exists(name) and not digests.has(name, digest)  # noqa: PTH110  # of tens of thousands
        for name, digest in record.inputs.items()
    )


def _time(name: str) -> float:
    """Modification time of a result for Snakemake: of a directory, that of a file in it."""
    for path in (f"{name}/{DIRECTORY_TIME}", name):
        try:
            return os.stat(path).st_mtime  # noqa: PTH116  # of tens of thousands
        except OSError:  # missing, not a directory, or a broken link
            continue
    return 0.0


def _set_time(names: Iterable[str], seconds: float) -> None:
    for name in names:
        for path in (name, f"{name}/{DIRECTORY_TIME}"):
            with suppress(OSError):
                os.utime(path, (seconds, seconds))
