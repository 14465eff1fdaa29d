"""Early cut-off: jobs that depend on a rebuilt file wait until it is known whether the file changed.

Snakemake decides what to run before it runs anything: a job that runs takes all jobs after it along, even if it rebuilds the
same file. Between two runs it does compare contents. So a run that rebuilds existing files has rounds: first the jobs that
do not depend on such files, then a new plan for the rest.
"""

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from tvmake.engine.up_to_date.outdated import note_outdated
from tvmake.engine.up_to_date.planned_jobs import PlannedJob

MOST = 20
"""Maximum number of rounds; more than there are stages."""

FORCING = ("forceall", "force", "forcerun", "until", "omit_from", "batch", "touch", "prioritize")
"""Snakemake's options that force or limit jobs. They would apply again in every round."""

Plan = Callable[[argparse.Namespace], Sequence[PlannedJob] | None]
"""The jobs that Snakemake would run; None if it refuses."""

Make = Callable[[argparse.Namespace], bool]
"""Runs Snakemake; returns whether everything succeeded."""


def make_in_rounds(
    args: argparse.Namespace,
    has_results: bool,
    plan: Plan,
    make: Make,
    was_made: Callable[[str], bool],
    outdated: Callable[[], Sequence[str]] = list,
    is_stopping: Callable[[], bool] = lambda: False,
) -> bool:
    """Make what Snakemake's arguments request, without jobs whose rebuilt inputs did not change.

    Args:
        has_results: whether files of an earlier run exist.
        was_made: whether a file was made before, even if it was deleted.
        outdated: returns results that Snakemake does not recognise as outdated, and those missing since their job failed; they
            are made first.
        is_stopping: whether no more jobs may start.

    Returns:
        Whether everything succeeded.
    """

    def start(part: argparse.Namespace) -> bool:
        """Run Snakemake, unless a signal came while it planned: it treats one as a refusal of that plan only."""
        return not is_stopping() and make(part)

    def make_first(files: list[str], **options: Any) -> bool:
        """Make some files. If that fails, also make what does not depend on the failures."""
        part = copy(args)
        part.targets = files
        vars(part).update(options)
        if start(part):
            return not is_stopping()
        if args.keep_going and not is_stopping():
            rest = copy(args)
            rest.omit_from = [file for file in {*files, *outdated()} if not Path(file).exists()]
            make(rest)
        return False

    known: set[str] = set()
    noted: set[str] = set()  # a result that waits for another is outdated in the next round too
    while files := [file for file in outdated() if file not in known]:
        note_outdated([file for file in files if file not in noted])
        noted.update(files)
        forced = copy(args)
        forced.targets = forced.forcerun = files
        # Their inputs may be rebuilt as well, without a change.
        first = first_round(plan(forced) or (), was_made) or files
        known.update(first)
        if not make_first(first, forcerun=[file for file in files if file in first]):
            return False
    if not has_results or any(getattr(args, option, None) for option in FORCING):
        return start(args)
    for _ in range(MOST):
        jobs = plan(args)
        if jobs is not None and not jobs:
            return True  # saves another look of Snakemake at everything
        waiting = first_round(jobs, was_made) if jobs else None
        if not waiting:
            break
        if not make_first(waiting):
            return False
    return start(args)


def first_round(jobs: Sequence[PlannedJob], was_made: Callable[[str], bool]) -> list[str] | None:
    """The files to make before planning again; None if nothing waits for a file that was made before."""
    maker = {file: job for job in jobs for file in job.outputs}
    waiting: dict[PlannedJob, bool] = {}

    def waits(job: PlannedJob) -> bool:
        if job not in waiting:
            waiting[job] = False  # jobs have no cycles
            waiting[job] = any(_is_rebuilt(before, was_made) or waits(before) for before in _makers(job.inputs, maker))
        return waiting[job]

    if not any(waits(job) for job in jobs if job.outputs):
        return None
    return [file for job in jobs if not waits(job) for file in job.outputs]


def _makers(files: Iterable[str], maker: dict[str, PlannedJob]) -> Collection[PlannedJob]:
    return {maker[file] for file in files if file in maker}


def _is_rebuilt(job: PlannedJob, was_made: Callable[[str], bool]) -> bool:
    return bool(job.outputs) and all(was_made(file) for file in job.outputs)
