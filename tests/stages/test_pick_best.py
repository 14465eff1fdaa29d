"""The record that is picked for a kernel."""

from pathlib import Path

import pytest

from tests.records.examples import CONTEXT, CONV, DEVICE, record, verdict
from tvmake.artifact.tasks import Task
from tvmake.records.record import Comparison, Record
from tvmake.records.store import RecordStore
from tvmake.stages.tuning.pick_best import _pick

TASK = Task(workload=CONV, names=["conv"], calls=1, flops=1e6)


class NoChecker:
    """All records have verdicts."""

    def check(self, record: Record) -> None:
        raise AssertionError("nothing is left to check")


def picked(root: Path, *records: Record, comparison: Comparison | None = None) -> Record | None:
    """The kernel picked from records with correct outputs."""
    store = RecordStore(root)
    store.append(CONTEXT, CONV, [*records, *(verdict(one, right=True) for one in records)])
    return _pick(TASK, store.load(CONTEXT, CONV), comparison, store, CONTEXT, NoChecker()).record


@pytest.mark.parametrize(("share", "wins"), [(1.0, False), (0.98, False), (0.96, True), (0.5, True)])
def test_a_candidate_has_to_be_plainly_faster_than_the_schedule_without_tuning(
    tmp_path: Path, share: float, wins: bool
):
    untuned = record(1).model_copy(update={"strategy": "rule", "samples_s": (2e-3,) * 3})
    drawn = record(2).model_copy(update={"samples_s": (share * 2e-3,) * 3})
    assert picked(tmp_path, drawn, untuned) == (drawn if wins else untuned)


def test_of_drawn_candidates_the_fastest_is_picked(tmp_path: Path):
    slow, fast = (record(n).model_copy(update={"samples_s": (ms * 1e-3,) * 3}) for n, ms in ((1, 2.0), (2, 1.99)))
    assert picked(tmp_path, slow, fast) == fast


def test_what_was_fastest_when_it_was_timed_again_is_picked(tmp_path: Path):
    lucky, steady = (record(n).model_copy(update={"samples_s": (ms * 1e-3,) * 3}) for n, ms in ((1, 1.0), (2, 2.0)))
    samples = {lucky.digest: (3e-3,), steady.digest: (2e-3,)}
    comparison = Comparison(samples_s=samples, compared_at="2026-07-01", device=DEVICE)
    assert picked(tmp_path, lucky, steady, comparison=comparison) == steady
