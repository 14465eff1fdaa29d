"""The end of a search: its best candidates are timed again, interleaved."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.tune.search.test_search import Interrupted, MadeUp, search
from tvmake.records.preference import MARGIN, latest_comparison, sort_by_preference
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.search.finals import CANDIDATES_EACH, FEWEST_CANDIDATES, TURNS, finalists
from tvmake.tune.search.search import Search

TRIALS = 4 * CANDIDATES_EACH


class Drifting(MadeUp):
    """A machine that is a hundred times as fast while it measures one candidate of the search, the fifth."""

    def __init__(self, answer=None, dies_after: int | None = None):
        super().__init__(answer, dies_after)
        self.seen: list[str] = []

    def measure(self, candidates):
        for candidate, measured in zip(candidates, super().measure(candidates), strict=False):
            self.seen.append(tvm.ir.save_json(candidate.module))
            samples = (
                tuple(sample / 100 for sample in measured.samples_s) if len(self.seen) == 5 else measured.samples_s
            )
            yield Measured(candidate.number, measured.status, samples, measured.error)


def compared(root: Path, measurer: MadeUp, count: int = 4, trials: int = TRIALS, **options: object) -> Search:
    """A search with finalists that has run."""
    run = search(root, measurer, trials, **options)
    run.finalists = count
    run.run()
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Search]:
    """A store with the records and the comparison of a search, and the search."""
    root = tmp_path_factory.mktemp("finished")
    return root, compared(root, MadeUp())


def test_finalists_are_timed_interleaved_and_the_fastest_is_chosen(tmp_path: Path):
    measurer = Drifting()
    run = compared(tmp_path, measurer)
    stored = run.store.load(run.context, run.workload.key)
    comparison = run.store.comparisons(run.context, run.workload.key)[run.comparison]
    assert {len(samples) for samples in comparison.samples_s.values()} == {TURNS}
    again = measurer.seen[TRIALS:]
    assert again == again[:4] * TURNS, "each turn times the same, in the same order"
    assert Counter(again) == dict.fromkeys(again, TURNS)
    lucky = sort_by_preference(stored)[0]
    winner = sort_by_preference(stored, comparison)[0]
    assert lucky.digest == stored[4].digest, "the best figure of the search is of the machine's fast moment"
    assert winner.digest != lucky.digest
    fastest = min(min(samples) for samples in comparison.samples_s.values())
    assert min(comparison.samples_s[winner.digest]) <= fastest * (1 + MARGIN), "rules win ties within the margin"


def test_the_comparison_does_not_count_as_trials(finished: tuple[Path, Search]):
    _, run = finished
    assert run.measured == len(run.store.load(run.context, run.workload.key)) == TRIALS


def test_compared_finalists_are_not_compared_again(finished: tuple[Path, Search]):
    root, first = finished
    again = search(root, MadeUp(), TRIALS)
    again.finalists, again.measuring = 4, lambda: pytest.fail("opened")
    assert again.run() == "budget"
    assert again.comparison == first.comparison


def test_a_search_with_better_candidates_is_compared_again(finished: tuple[Path, Search], tmp_path: Path):
    root, first = finished
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    faster = MadeUp(lambda candidate: Measured(candidate.number, "ok", (1e-6 * (1 + candidate.number),)))
    more = compared(tmp_path, faster, trials=TRIALS + 8)
    comparisons = more.store.comparisons(more.context, more.workload.key)
    assert list(comparisons) == [first.comparison, more.comparison]


def test_a_comparison_that_was_interrupted_is_made_by_the_next_run(tmp_path: Path):
    with pytest.raises(Interrupted):
        compared(tmp_path, MadeUp(dies_after=TRIALS + 3))
    run = compared(tmp_path, MadeUp())
    assert run.measured == 0
    assert list(run.store.comparisons(run.context, run.workload.key)) == [run.comparison]


@pytest.mark.parametrize(("trials", "compares"), [(FEWEST_CANDIDATES, 2), (3 * CANDIDATES_EACH, 3), (TRIALS, 4)])
def test_the_more_candidates_there_are_the_more_finalists(tmp_path: Path, trials: int, compares: int):
    run = compared(tmp_path, MadeUp(), 4, trials)
    (comparison,) = run.store.comparisons(run.context, run.workload.key).values()
    assert len(comparison.samples_s) == compares


@pytest.mark.parametrize(
    ("count", "trials"), [(0, 2 * CANDIDATES_EACH), (1, 2 * CANDIDATES_EACH), (4, FEWEST_CANDIDATES - 1)]
)
def test_there_is_nothing_to_compare_with_one_finalist_or_few_candidates(tmp_path: Path, count: int, trials: int):
    run = compared(tmp_path, MadeUp(), count, trials)
    assert run.comparison is None
    assert not run.store.comparisons(run.context, run.workload.key)


def test_the_schedule_of_the_rules_is_a_finalist_however_slow_it_seemed(tmp_path: Path):
    measurer = MadeUp()
    fast = measurer.answer
    # The first candidate of a search is the rule's.
    measurer.answer = lambda candidate: (
        Measured(candidate.number, "ok", (1.0,)) if measurer.measured == 1 else fast(candidate)
    )
    run = compared(tmp_path, measurer, 2)
    assert [finalist.record.strategy for finalist in finalists(run.store.load(run.context, run.workload.key), 2)][
        1
    ] == "rule"
    comparison = latest_comparison(run.store.comparisons(run.context, run.workload.key))
    assert len(comparison.samples_s) == 2


@pytest.mark.parametrize("failure", [{"status": "timeout", "error": "slow"}, {"status": "ok", "samples_s": (0.0,)}])
def test_a_finalist_that_fails_in_the_comparison_comes_after_the_others(tmp_path: Path, failure: dict[str, Any]):
    measurer = MadeUp()
    failing: list[str] = []

    def answer(candidate: Candidate) -> Measured:
        code = tvm.ir.save_json(candidate.module)
        if measurer.measured == TRIALS + 1:
            failing.append(code)
        return Measured(candidate.number, **failure) if code in failing else MadeUp.latency(candidate)

    measurer.answer = answer
    run = compared(tmp_path, measurer)
    stored = run.store.load(run.context, run.workload.key)
    comparison = run.store.comparisons(run.context, run.workload.key)[run.comparison]
    assert sorted(map(len, comparison.samples_s.values())) == [0, TURNS, TURNS, TURNS]
    worked = {digest for digest, samples in comparison.samples_s.items() if samples}
    assert {preferred.digest for preferred in sort_by_preference(stored, comparison)[:3]} == worked


def test_a_device_that_is_lost_meanwhile_compares_nothing(tmp_path: Path):
    measurer = MadeUp()
    measurer.answer = lambda candidate: (
        Measured(candidate.number, "device_lost", error="gone")
        if measurer.measured > TRIALS
        else MadeUp.latency(candidate)
    )
    run = compared(tmp_path, measurer)
    assert run.comparison is None
    assert compared(tmp_path, MadeUp()).comparison is not None
