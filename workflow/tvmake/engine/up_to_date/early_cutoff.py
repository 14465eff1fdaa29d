"""Early cut-off: what depends on a file that is made again waits until it is known whether the file has changed.

Snakemake decides what to run before it runs anything, so a job that runs takes everything behind it along, also when it
makes the same file as before. Between two runs it does compare contents. So a run that makes existing files again goes in
rounds: what is not behind such a file first, then a new look at what is left to do.
"""

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from tvmake.engine.up_to_date.outdated import note_outdated
from tvmake.engine.up_to_date.planned_jobs import PlannedJob

MOST = 20
"""Rounds; more than there are stages."""

FORCING = ("forceall", "force", "forcerun", "until", "omit_from", "batch", "touch", "prioritize")
"""Snakemake's options that say what runs; they would say so again in every round."""

Plan = Callable[[argparse.Namespace], Sequence[PlannedJob] | None]
"""The jobs that Snakemake would run; None where it refuses."""

Make = Callable[[argparse.Namespace], bool]
"""Runs Snakemake; tells whether everything succeeded."""


def make_in_rounds(
    args: argparse.Namespace,
    has_results: bool,
    plan: Plan,
    make: Make,
    was_made: Callable[[str], bool],
    outdated: Callable[[], Sequence[str]] = list,
    is_told_to_end: Callable[[], bool] = lambda: False,
) -> bool:
    """Make what Snakemake's arguments ask for, and nothing because of a file that was made again and is as before.

    Args:
        has_results: whether there are files of an earlier run.
        was_made: whether a file was made before, even if it is not there any more.
        outdated: names results that Snakemake does not see to be outdated, and those that are missing since their job failed; they
            are made first.
        is_told_to_end: whether no more jobs are to start.

    Returns:
        Whether everything succeeded.
    """

    def start(part: argparse.Namespace) -> bool:
        """Run Snakemake, unless a signal came while it was asked what to run: it takes one for a refusal of the question alone."""
        return not is_told_to_end() and make(part)

    def make_first(files: list[str], **options: Any) -> bool:
        """Make some files; where that fails, what does not depend on the failures as well."""
        part = copy(args)
        part.targets = files
        vars(part).update(options)
        if start(part):
            return not is_told_to_end()
        if args.keep_going and not is_told_to_end():
            rest = copy(args)
            rest.omit_from = [file for file in {*files, *outdated()} if not Path(file).exists()]
            make(rest)
        return False

    known: set[str] = set()
    noted: set[str] = set()  # one that waits for another is outdated in the next round, too
    while files := [file for file in outdated() if file not in known]:
        note_outdated([file for file in files if file not in noted])
        noted.update(files)
        forced = copy(args)
        forced.targets = forced.forcerun = files
        # What one of them is made of may be made again as well, and be as before.
        first = first_round(plan(forced) or (), was_made) or files
        known.update(first)
        if not make_first(first, forcerun=[file for file in files if file in first]):
            return False
    if not has_results or any(getattr(args, option, None) for option in FORCING):
        return start(args)
    for _ in range(MOST):
        jobs = plan(args)
        if jobs is not None and not jobs:
            return True  # Snakemake would look at everything once more, only to say so
        waiting = first_round(jobs, was_made) if jobs else None
        if not waiting:
            break
        if not make_first(waiting):
            return False
    return start(args)


def first_round(jobs: Sequence[PlannedJob], was_made: Callable[[str], bool]) -> list[str] | None:
    """The files to make before looking again; None where nothing waits for a file that was made before."""
    maker = {file: job for job in jobs for file in job.outputs}
    waiting: dict[PlannedJob, bool] = {}

    def waits(job: PlannedJob) -> bool:
        if job not in waiting:
            waiting[job] = False  # there are no circles
            waiting[job] = any(
                _is_made_again(before, was_made) or waits(before) for before in _makers(job.inputs, maker)
            )
        return waiting[job]

    if not any(waits(job) for job in jobs if job.outputs):
        return None
    return [file for job in jobs if not waits(job) for file in job.outputs]


def _makers(files: Iterable[str], maker: dict[str, PlannedJob]) -> Collection[PlannedJob]:
    return {maker[file] for file in files if file in maker}


def _is_made_again(job: PlannedJob, was_made: Callable[[str], bool]) -> bool:
    return bool(job.outputs) and all(was_made(file) for file in job.outputs)
