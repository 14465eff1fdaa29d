"""Which of the ready jobs start next, told in a time that hardly grows with their number.

Snakemake's own selectors look, whenever a job ends, at the sizes of all ready jobs' inputs, and at every job once for each that
they choose; the default one solves an integer programme besides. And every look starts a timer that leads to one more look a
second later, since there is a limit to the jobs started in a second: after some hundred jobs the process does nothing else, and
keeps a core from the jobs.

Here jobs are taken as they come, as long as there is room for them, and one timer runs at a time. It concerns ``tvmake make``; the
order of jobs only with the scheduler that ``profiles/default`` names, greedy and without regard to inputs.
"""

from collections.abc import Iterable, Mapping
from threading import Timer
from typing import Any

import snakemake.api  # noqa: F401  # its modules import each other, which works from this one on
from snakemake.scheduling.greedy import Scheduler as GreedyScheduler
from snakemake.scheduling.job_scheduler import JobScheduler

SIZED = "mem_mb"
"""What jobs of one rule and target need differently, by the size of their model."""

_select_as_snakemake = JobScheduler.job_selector


def schedule_leanly() -> None:
    """Have Snakemake choose jobs this way, in this process."""
    JobScheduler.job_selector = _select
    JobScheduler._schedule_reevalutation = _look_again


def _select(self: Any, jobs: Iterable[Any]) -> Any:
    if not _any_order_will_do(self._scheduler):
        return _select_as_snakemake(self, jobs)
    for job in jobs:
        self.validate_job(job)
    limit = self.job_rate_limiter
    with self._lock:
        if limit:
            self.resources["_job_count"] = limit.get_free_jobs()
        chosen = that_fit(jobs, self.resources)
        self.update_available_resources(chosen)
    if limit:
        limit.register_jobs(len(chosen))
    return chosen


def _any_order_will_do(scheduler: Any) -> bool:
    return isinstance(scheduler, GreedyScheduler) and scheduler.settings.omit_prioritize_by_temp_and_input


def _look_again(self: Any, delay: float) -> None:
    if getattr(self, "_will_look_again", False):
        return

    def look() -> None:
        self._will_look_again = False
        self._open_jobs.release()

    self._will_look_again = True
    timer = Timer(delay, look)
    timer.daemon = True  # nothing waits for it at the end
    timer.start()


def that_fit(jobs: Iterable[Any], free: Mapping[str, int]) -> list[Any]:
    """Jobs that can run at once, those of higher priority first, until nothing more fits.

    Args:
        jobs: Snakemake's, ready to run.
        free: what is left of every resource (``_cores``, ``mem_mb``, ``device_phone``, ``_job_count`` …).
    """
    left = dict(free)
    chosen: list[Any] = []
    waiting: set[Any] = set()
    for job in sorted(jobs, key=lambda job: job.priority, reverse=True):
        if not (left["_cores"] and left.get("_job_count", 1)):
            break
        if (kind := _kind(job)) in waiting:
            continue
        wants = job.scheduler_resources
        lacking = [name for name, there in left.items() if wants.get(name, 0) > there]
        if not lacking:
            chosen.append(job)
            for name in left:
                left[name] -= wants.get(name, 0)
        elif lacking != [SIZED]:
            waiting.add(kind)
    return chosen


def _kind(job: Any) -> Any:
    """The same for jobs that need the same cores and devices; a group of jobs is one of its kind."""
    return job if job.is_group() else (job.name, job.wildcards_dict.get("target"))
