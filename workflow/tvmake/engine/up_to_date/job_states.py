"""How each job of a plan stands: made, outdated, missing or failed, and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tvmake.engine.progress.job_log import ending
from tvmake.engine.run_mutex import is_at_work
from tvmake.engine.up_to_date.changes import Change, changes
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job
from tvmake.storage.notes.job_records import record_of

State = Literal["made", "outdated", "missing", "failed", "running"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class JobState:
    """One job."""

    job: Job
    state: State
    changes: tuple[Change, ...]
    """What differs from what it was made of; none where only a job before it is not made."""
    waits_for: "tuple[JobState, ...]" = ()
    """The jobs that make its inputs and are not made, or not as they would be now."""

    def causes(self) -> "list[JobState]":
        """The jobs that run for a reason of their own, before this one or itself, in the order that data flows."""
        found: list[JobState] = []
        seen: set[int] = set()

        def visit(state: "JobState") -> None:
            if id(state) in seen:
                return
            seen.add(id(state))
            for before in state.waits_for:
                visit(before)
            if state.changes and (state.state != "missing" or not state.waits_for):
                found.append(state)

        visit(self)
        return found


def job_states(jobs: Iterable[Job]) -> list[JobState]:
    """The state of each job, in the order given.

    Args:
        jobs: of whole variants, those before others included.
    """
    jobs = list(jobs)
    makers = {name: job for job in jobs for name in job.outputs}
    states: dict[tuple[str, ...], JobState] = {}
    at_work = is_at_work()

    def state_of(job: Job) -> JobState:
        if job.outputs not in states:
            before = {makers[name].outputs: makers[name] for name in job.inputs if name in makers}
            waits_for = tuple(state for maker in before.values() if (state := state_of(maker)).state != "made")
            found = tuple(changes(job))
            states[job.outputs] = JobState(job, _state(job, found, waits_for, at_work), found, waits_for)
        return states[job.outputs]

    found = [state_of(job) for job in jobs]
    known_digests().save()
    return found


def _state(job: Job, found: tuple[Change, ...], waits_for: tuple[JobState, ...], at_work: bool) -> State:
    if found and record_of(job.outputs) is None:
        end = ending(Path(job.log))
        if end == "cut short":
            return "running" if at_work else "failed"
        if end == "failed":
            return "failed"
    if any(change.kind == "missing" for change in found):
        return "missing"
    return "outdated" if found or waits_for else "made"
