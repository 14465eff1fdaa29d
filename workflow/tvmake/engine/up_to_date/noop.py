"""What is known to be up to date, remembered so that Snakemake is not asked again.

Snakemake plans every job to find that none has to run: seconds for thousands of jobs. Where it found so, a note is kept for each
variant, and for the report, of all that the answer depends on: the question (options and code of its jobs) and how its files
are. As long as both are the same, so is the answer, and a run asks Snakemake only about the other variants.

In any doubt there is no note, or it is not used, and Snakemake plans.
"""

import os
from collections.abc import Iterable
from typing import Any

from tvmake.engine.up_to_date.question import Question
from tvmake.engine.up_to_date.scope import UpToDate, read_by_others
from tvmake.engine.up_to_date.sources import has_records
from tvmake.engine.up_to_date.stamps import Stamps
from tvmake.errors import MachineError
from tvmake.plan.plan import Job, Plan, Variant
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.known_digests import SETTLED_NS
from tvmake.storage.notes.state_file import read_state, write_state

STATE = SNAKEMAKE_STATE
NOTES = STATE / "tvmake-up-to-date.json"
FORM = 4
"""Of the notes; another one is not read."""

INCOMPLETE = STATE / "incomplete"
"""Where Snakemake marks results that are not complete."""

LOCKS = STATE / "locks"
"""There while a plain ``snakemake`` is at work."""

REPORT = "report"
"""The report's name among the notes; a variant's has two slashes."""

Note = dict[str, Any]


def up_to_date(question: Question) -> UpToDate:
    """The variants, and whether the report, of which nothing has changed since Snakemake found them up to date."""
    notes = _read()
    if not notes or _is_uncertain():
        return UpToDate()
    files, stamps = notes["files"], Stamps()
    is_same_run = notes["question"] == question.whole
    plan = question.plan

    def holds(note: Note | None, fingerprint: str | None) -> bool:
        if note is None or (fingerprint is not None and note["question"] != fingerprint):
            return False
        try:
            named = [files[index] for index in note["files"]]
            return bool(stamps.digest(named, (files[index] for index in note["trees"]))[0] == note["stamps"])
        except (OSError, IndexError):
            return False

    kept = notes["notes"]
    variants = frozenset(
        variant
        for variant in plan.variants
        if holds(kept.get(str(variant)), None if is_same_run else question.variants.get(variant))
        # Of the same run, they were there when it was noted.
        and (is_same_run or _is_there_for_others(plan, variant))
    )
    report = holds(kept.get(REPORT), None if is_same_run else question.report)
    return UpToDate(variants, report)


def note(question: Question, left_out: UpToDate, began_ns: int) -> None:
    """Note that Snakemake found nothing to do, where nothing may have changed since it began to plan.

    A directory that cannot be written only costs planning again.

    Args:
        question: from after the plan, the same as before it.
        left_out: what Snakemake was not asked about; its notes are kept.
        began_ns: when Snakemake began to plan (ns since 1970).
    """
    settled_ns = began_ns - SETTLED_NS
    if question.newest_ns >= settled_ns or _is_uncertain():
        return
    plan, stamps = question.plan, Stamps()
    writer = _Writer(_read())
    try:
        for variant in plan.variants:
            if variant in left_out.variants:
                writer.keep(str(variant), question.variants[variant])
            elif _is_there_for_others(plan, variant):
                writer.add(str(variant), question.variants[variant], plan.jobs(variant), stamps, settled_ns)
        if left_out.report:
            writer.keep(REPORT, question.report)
        else:
            writer.add(REPORT, question.report, plan.run_jobs(), stamps, settled_ns)
        write_state(NOTES, FORM, {"question": question.whole, "files": writer.names, "notes": writer.notes})
    except (OSError, MachineError):
        return


def _is_there_for_others(plan: Plan, variant: Variant) -> bool:
    """Whether the files of a variant that jobs outside it read are there: it is not asked about when those run."""
    return all(os.path.exists(name) for name in read_by_others(plan, variant))  # noqa: PTH110  # of thousands


class _Writer:
    """Notes with their files by number: most files are those of several variants."""

    def __init__(self, before: dict[str, Any] | None):
        self.names: list[str] = []
        self.notes: dict[str, Note] = {}
        self._before = before or {"files": [], "notes": {}}
        self._numbers: dict[str, int] = {}

    def keep(self, name: str, question: str) -> None:
        """Keep a note of before, if there is one."""
        kept = self._before["notes"].get(name)
        if kept is None:
            return
        named = {key: [self._number(self._before["files"][index]) for index in kept[key]] for key in ("files", "trees")}
        self.notes[name] = {**kept, **named, "question": question}

    def add(self, name: str, question: str, jobs: Iterable[Job], stamps: Stamps, settled_ns: int) -> None:
        """Add a note on jobs, unless one of their files changed after ``settled_ns``."""
        jobs = tuple(jobs)
        named = {file for job in jobs for file in (*job.inputs, *job.outputs)}
        trees = sorted(file for file in named if os.path.isdir(file))  # noqa: PTH112  # of thousands
        files = sorted(named.difference(trees))
        digest, newest_ns = stamps.digest(files, trees)
        if newest_ns < settled_ns:
            self.notes[name] = {
                "question": question,
                "files": [self._number(file) for file in files],
                "trees": [self._number(file) for file in trees],
                "stamps": digest,
            }

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


def _read() -> dict[str, Any] | None:
    notes = read_state(NOTES, FORM)
    return notes if isinstance(notes, dict) and notes.keys() == {"question", "files", "notes"} else None


def _is_uncertain() -> bool:
    """Whether something is at work here, or was killed, or Snakemake's own records are gone."""
    return any(place.is_dir() and any(place.iterdir()) for place in (LOCKS, INCOMPLETE)) or not has_records()
