"""The state of each job of a plan (made, outdated, missing, failed or running), and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tvmake.engine.progress.job_log import ending
from tvmake.engine.run_mutex import is_run_active
from tvmake.engine.up_to_date.changes import Change, changes
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job
from tvmake.storage.notes.job_records import record_of

State = Literal["made", "outdated", "missing", "failed", "running"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class JobState:
    """The state of a job."""

    job: Job
    state: State
    changes: tuple[Change, ...]
    """Differences from the job's last run; none if only a job before it is not made."""
    waits_for: "tuple[JobState, ...]" = ()
    """Jobs that make its inputs and are not up to date."""

    def causes(self) -> "list[JobState]":
        """This job and jobs before it that run for their own reason, in the order of the data flow."""
        causes: list[JobState] = []
        seen: set[int] = set()

        def visit(state: "JobState") -> None:
            if id(state) in seen:
                return
            seen.add(id(state))
            for before in state.waits_for:
                visit(before)
            if state.changes and (state.state != "missing" or not state.waits_for):
                causes.append(state)

        visit(self)
        return causes


def job_states(jobs: Iterable[Job]) -> list[JobState]:
    """The state of each job, in the order given.

    Args:
        jobs: all jobs of whole variants.
    """
    jobs = list(jobs)
    makers = {name: job for job in jobs for name in job.outputs}
    states: dict[tuple[str, ...], JobState] = {}
    run_active = is_run_active()

    def state_of(job: Job) -> JobState:
        if job.outputs not in states:
            before = {makers[name].outputs: makers[name] for name in job.inputs if name in makers}
            waits_for = tuple(state for maker in before.values() if (state := state_of(maker)).state != "made")
            differences = tuple(changes(job))
            states[job.outputs] = JobState(job, _state(job, differences, waits_for, run_active), differences, waits_for)
        return states[job.outputs]

    results = [state_of(job) for job in jobs]
    known_digests().save()
    return results


def _state(job: Job, differences: tuple[Change, ...], waits_for: tuple[JobState, ...], run_active: bool) -> State:
    if differences and record_of(job.outputs) is None:
        end = ending(Path(job.log))
        if end == "cut short":
            return "running" if run_active else "failed"
        if end == "failed":
            return "failed"
    if any(change.kind == "missing" for change in differences):
        return "missing"
    return "outdated" if differences or waits_for else "made"
