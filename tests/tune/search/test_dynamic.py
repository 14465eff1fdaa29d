"""The search for kernels with dynamic dimensions: variants of the rule's schedule, measured at several sizes."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.tune.dynamic import dense, points
from tests.tune.graphs import CPU
from tests.tune.search.test_search import DEVICE, MadeUp, traces
from tvmake.artifact.size_points import SizePoint
from tvmake.config.requests.tuning import SearchOptions
from tvmake.records.preference import RULE, sort_by_preference
from tvmake.records.store import RecordStore
from tvmake.records.workload import Workload
from tvmake.tune.context import tuning_context
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.receipts import EXHAUSTED
from tvmake.tune.search.search import Search

POINTS = points({"n": 1}, {"n": 64})


@pytest.fixture(scope="module")
def own() -> Workload:
    return dense()


def timed(candidate: Candidate, seconds: float) -> Measured:
    """A result with a time for each point."""
    by_point = tuple((seconds * point.sizes["n"],) for point in candidate.points)
    total = sum(point.weight * samples[0] for point, samples in zip(candidate.points, by_point, strict=True))
    return Measured(candidate.number, "ok", (total,), samples_by_point=by_point)


class Sized(MadeUp):
    """Candidates take a time for each point."""

    @staticmethod
    def latency(candidate: Candidate) -> Measured:
        (seconds,) = MadeUp.latency(candidate).samples_s
        return timed(candidate, seconds)


def search(root: Path, own: Workload, trials: int, sizes: tuple[SizePoint, ...] = POINTS, **options: object) -> Search:
    """A search that has not run."""
    return Search(
        workload=own,
        context=tuning_context(CPU, DEVICE),
        store=RecordStore(root),
        measuring=lambda: nullcontext(Sized()),
        device=DEVICE,
        options=SearchOptions(batch=4, **options),
        trials=trials,
        target=CPU,
        threads=1,
        points=sizes,
        finalists=3,
    )


def test_candidates_are_the_rules_schedule_and_its_other_tiles(tmp_path: Path, own: Workload):
    run = search(tmp_path, own, 6)
    assert run.run() == "budget"
    stored = run.store.load(run.context, own.key)
    assert [record.record.strategy for record in stored] == [RULE, *["tile"] * 5]
    assert all(record.size_points == POINTS for record in stored)
    best = sort_by_preference(stored)[0]
    assert best.latency_ms == pytest.approx(sum(point.weight * min(point.samples_s) for point in best.points) * 1e3)


def test_all_candidates_of_the_rule_end_the_search(tmp_path: Path, own: Workload):
    run = search(tmp_path, own, 100)
    assert run.run() == EXHAUSTED
    stored = traces(tmp_path, run.context, own.key)
    assert run.measured == len(stored) == len(set(stored)) > 8


def test_the_finalists_are_compared_at_each_size(tmp_path: Path, own: Workload):
    run = search(tmp_path, own, 8)
    run.run()
    comparison = run.store.comparisons(run.context, own.key)[run.comparison]
    assert comparison.points.keys() == comparison.samples_s.keys()
    assert all([point.point for point in entries] == list(POINTS) for entries in comparison.points.values())
    again = search(tmp_path, own, 8)
    again.measuring = lambda: pytest.fail("opened")
    assert again.run() == "budget" and again.comparison == run.comparison


def test_records_at_other_sizes_do_not_count(tmp_path: Path, own: Workload):
    search(tmp_path, own, 3).run()
    other = search(tmp_path, own, 3, points({"n": 7}))
    other.run()
    assert other.measured == 3
    again = search(tmp_path, own, 4)
    again.run()
    assert again.measured == 1


def test_a_search_without_a_warm_start_has_the_same_candidates(tmp_path: Path, own: Workload):
    run = search(tmp_path, own, 3, warm_start=False)
    run.run()
    assert run.measured == 3


def test_a_search_stops_early_after_a_batch_without_improvement(tmp_path: Path, own: Workload):
    run = search(tmp_path, own, 100, early_stopping=1)
    slower = Sized(lambda candidate: timed(candidate, 1e-3 * (1 + slower.measured)))
    run.measuring = lambda: nullcontext(slower)
    assert run.run() == "early stopping"
    assert run.measured == 4
