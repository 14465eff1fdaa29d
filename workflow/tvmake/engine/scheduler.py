"""Which of the ready jobs start next: a scheduler plugin for Snakemake that takes jobs as they come.

Snakemake's own selectors weigh all ready jobs against each other whenever a job ends; the default one solves an integer programme.
Here a job is taken if there is room for it, and of the jobs that need the same cores and devices only one is looked at where
there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

SIZED = "mem_mb"
"""What jobs of one rule and target need differently, by the size of their model."""


@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    """There are none."""


class Scheduler(SchedulerBase):
    """Selects jobs in any order, those of higher priority first."""

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> Sequence[Any]:
        """The jobs that can run at once with what is left of every resource."""
        free = {name: left for name, left in available_resources.items() if isinstance(left, int)}
        return jobs_that_fit(selectable_jobs, free)


def jobs_that_fit(jobs: Iterable[Any], free: Mapping[str, int]) -> list[Any]:
    """Jobs that can run at once, those of higher priority first, until nothing more fits.

    Args:
        jobs: Snakemake's, ready to run.
        free: what is left of every resource (``_cores``, ``mem_mb``, ``device_phone``, ``_job_count`` …).
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
    """The same for jobs that need the same cores and devices; a group of jobs is one of its kind."""
    return job if job.is_group() else (job.name, job.wildcards_dict.get("target"))
