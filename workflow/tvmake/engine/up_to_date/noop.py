"""What is known to be up to date, so that Snakemake is not asked about it.

Snakemake plans every job to find that none has to run: seconds for thousands of jobs. Once a whole run has succeeded, the records of
jobs tell the same. That answer is kept, with the fingerprint of the run and the stamps of its files: as long as both are the same, not
even the records are read.

In any doubt the answer is not used, and Snakemake plans.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from tvmake.engine.up_to_date.changes import changes
from tvmake.engine.up_to_date.file_stamps import file_stamps
from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint
from tvmake.engine.up_to_date.scope import UpToDate, jobs_of
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.errors import MachineError
from tvmake.plan.plan import Job, Plan
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import RECORDS
from tvmake.storage.notes.known_digests import SETTLED_NS
from tvmake.storage.notes.state_file import read_state, write_state

ANSWER = SNAKEMAKE_STATE / "tvmake-up-to-date.json"
FORM = 5
"""Of the answer; another one is not read."""

INCOMPLETE = SNAKEMAKE_STATE / "incomplete"
"""Where Snakemake marks results that are not complete."""

LOCKS = SNAKEMAKE_STATE / "locks"
"""There while a plain ``snakemake`` is running."""


def up_to_date(fingerprint: RunFingerprint) -> UpToDate:
    """The variants that are up to date, and whether the report is, as far as that is known without Snakemake."""
    began_ns = time.time_ns()
    kept = read_state(ANSWER, FORM)
    # Rules and profiles may have Snakemake run what the records know nothing of.
    if not isinstance(kept, dict) or kept.get("workflow") != fingerprint.workflow or _is_uncertain():
        return UpToDate()
    plan = fingerprint.plan
    is_same_run = kept.get("run") == fingerprint.digest and kept.get("stamps")
    if is_same_run and kept["stamps"] == _stamps(plan)[0]:
        return UpToDate(frozenset(plan.variants), report=True)
    found = up_to_date_by_records(plan)
    if found.is_everything(plan):
        keep_answer(fingerprint, began_ns)
    return found


def up_to_date_by_records(plan: Plan) -> UpToDate:
    """The variants whose results are all there and as their jobs would make them now, and whether the report is."""
    known: dict[tuple[str, ...], bool] = {}

    def are_made(jobs: Iterable[Job]) -> bool:
        for job in jobs:
            if job.outputs not in known:
                known[job.outputs] = not changes(job)
            if not known[job.outputs]:
                return False
        return True

    found = UpToDate(
        frozenset(variant for variant in plan.variants if are_made(plan.jobs(variant))), are_made(plan.run_jobs())
    )
    known_digests().save()
    return found


def keep_answer(fingerprint: RunFingerprint, began_ns: int) -> None:
    """Keep that everything is up to date; without the stamps of files that may have changed since that was asked.

    A directory that cannot be written only costs asking again.

    Args:
        fingerprint: from after the question, the same as before it.
        began_ns: when it was asked (ns since 1970).
    """
    if _is_uncertain():
        return
    stamps, newest_ns = _stamps(fingerprint.plan)
    is_settled = max(newest_ns, fingerprint.newest_ns) < began_ns - SETTLED_NS
    answer = {"run": fingerprint.digest, "workflow": fingerprint.workflow, "stamps": stamps if is_settled else ""}
    with suppress(OSError, MachineError):
        write_state(ANSWER, FORM, answer)


def _stamps(plan: Plan) -> tuple[str, int]:
    """Of all files of a run's jobs, and of the directory of records; empty where they cannot be read."""
    names = sorted({name for job in jobs_of(plan, plan.variants) for name in (*job.inputs, *job.outputs)})
    trees = [name for name in names if os.path.isdir(name)]  # noqa: PTH112  # of thousands
    try:
        return file_stamps([*names, str(RECORDS)], trees)
    except OSError:
        return "", 0


def _is_uncertain() -> bool:
    """Whether a plain ``snakemake`` is running here, or a run was killed."""
    return any(place.is_dir() and any(place.iterdir()) for place in (LOCKS, INCOMPLETE))
