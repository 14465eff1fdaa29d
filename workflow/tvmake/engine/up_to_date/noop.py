"""Determine what is up to date without Snakemake.

Snakemake plans every job to find that none has to run, which takes seconds for thousands of jobs. After a complete successful run, the
records of jobs show the same. That answer is saved with the fingerprint of the run and the stamps of its files. While both are
unchanged, not even the records are read.

If in doubt, the answer is ignored and Snakemake plans.
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
"""Format version of the answer; others are ignored."""

INCOMPLETE = SNAKEMAKE_STATE / "incomplete"
"""Snakemake's marks of incomplete results."""

LOCKS = SNAKEMAKE_STATE / "locks"
"""Not empty while a plain ``snakemake`` is running."""


def up_to_date(fingerprint: RunFingerprint) -> UpToDate:
    """The variants that are known to be up to date without Snakemake, and whether the report is."""
    began_ns = time.time_ns()
    answer = read_state(ANSWER, FORM)
    # Rules and profiles may make Snakemake run jobs for reasons that the records do not contain.
    if not isinstance(answer, dict) or answer.get("workflow") != fingerprint.workflow or _is_uncertain():
        return UpToDate()
    plan = fingerprint.plan
    is_same_run = answer.get("run") == fingerprint.digest and answer.get("stamps")
    if is_same_run and answer["stamps"] == _stamps(plan)[0]:
        return UpToDate(frozenset(plan.variants), report=True)
    current = up_to_date_by_records(plan)
    if current.is_everything(plan):
        keep_answer(fingerprint, began_ns)
    return current


def up_to_date_by_records(plan: Plan) -> UpToDate:
    """The variants whose results exist and are up to date by their jobs' records, and whether the report is."""
    known: dict[tuple[str, ...], bool] = {}

    def are_made(jobs: Iterable[Job]) -> bool:
        for job in jobs:
            if job.outputs not in known:
                known[job.outputs] = not changes(job)
            if not known[job.outputs]:
                return False
        return True

    current = UpToDate(
        frozenset(variant for variant in plan.variants if are_made(plan.jobs(variant))), are_made(plan.run_jobs())
    )
    known_digests().save()
    return current


def keep_answer(fingerprint: RunFingerprint, began_ns: int) -> None:
    """Save that everything is up to date. Stamps are omitted if files may have changed since planning began.

    If the directory cannot be written, the next run plans again.

    Args:
        fingerprint: read after planning; unchanged since before.
        began_ns: start of planning (ns since 1970).
    """
    if _is_uncertain():
        return
    stamps, newest_ns = _stamps(fingerprint.plan)
    is_settled = max(newest_ns, fingerprint.newest_ns) < began_ns - SETTLED_NS
    answer = {"run": fingerprint.digest, "workflow": fingerprint.workflow, "stamps": stamps if is_settled else ""}
    with suppress(OSError, MachineError):
        write_state(ANSWER, FORM, answer)


def _stamps(plan: Plan) -> tuple[str, int]:
    """Stamps of all files of a run's jobs and of the directory of records; empty if they cannot be read."""
    names = sorted({name for job in jobs_of(plan, plan.variants) for name in (*job.inputs, *job.outputs)})
    trees = [name for name in names if os.path.isdir(name)]  # noqa: PTH112  # of thousands
    try:
        return file_stamps([*names, str(RECORDS)], trees)
    except OSError:
        return "", 0


def _is_uncertain() -> bool:
    """Whether a plain ``snakemake`` is running here, or a run was killed."""
    return any(directory.is_dir() and any(directory.iterdir()) for directory in (LOCKS, INCOMPLETE))
