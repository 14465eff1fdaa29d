"""Choose the ready jobs that start next: a scheduler plugin for Snakemake, first come first served.

Snakemake's own schedulers compare all ready jobs whenever a job ends; the default one solves an integer programme.
This one takes a job if there is room for it. If there is none, it skips the other jobs with the same cores and
devices.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

SIZED = "mem_mb"
"""The resource in which jobs of one rule and target differ, by the size of their model."""


@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    """No settings."""


class Scheduler(SchedulerBase):
    """Selects jobs in any order, higher priorities first."""

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> Sequence[Any]:
        """Return the jobs that can run at once with the available resources."""
        free = {name: left for name, left in available_resources.items() if isinstance(left, int)}
        return jobs_that_fit(selectable_jobs, free)


def jobs_that_fit(jobs: Iterable[Any], free: Mapping[str, int]) -> list[Any]:
    """Return jobs that can run at once, higher priorities first, until nothing more fits.

    Args:
        jobs: Snakemake's jobs that are ready to run.
        free: available amount of every resource (``_cores``, ``mem_mb``, ``device_phone``, ``_job_count`` …).
    """
    left = dict(free)
    chosen: list[Any] = []
    without_room: set[Any] = set()
    for job in sorted(jobs, key=lambda job: job.priority, reverse=True):
        if not (left["_cores"] and left.get("_job_count", 1)):
            break
        if (kind := _kind(job)) in without_room:
            continue
        needed = job.scheduler_resources
        lacking = [name for name, available in left.items() if needed.get(name, 0) > available]
        if not lacking:
            chosen.append(job)
            for name in left:
                left[name] -= needed.get(name, 0)
        elif lacking != [SIZED]:
            without_room.add(kind)
    return chosen


def _kind(job: Any) -> Any:
    """A key that jobs with the same cores and devices share; a group of jobs has its own."""
    return job if job.is_group() else (job.name, job.wildcards_dict.get("target"))
