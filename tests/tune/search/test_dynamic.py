"""The search for kernels with dynamic dimensions: variants of the rule's schedule, measured at several sizes."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.targets.adreno_texture.nets import op, target
from tests.tune.dynamic import dense, dim, points
from tests.tune.graphs import kernel
from tests.tune.search.test_search import DEVICE, MadeUp, traces
from tvmake.artifact.range_traces import range_of, read_trace
from tvmake.artifact.size_points import SizePoint
from tvmake.config.requests.tuning import SearchOptions
from tvmake.records.preference import RULE, sort_by_preference
from tvmake.records.store import RecordStore
from tvmake.records.workload import Workload, workload
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
        context=tuning_context(own.target, DEVICE),
        store=RecordStore(root),
        measuring=lambda: nullcontext(Sized()),
        device=DEVICE,
        options=SearchOptions(batch=4, **options),
        trials=trials,
        target=own.target,
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


GPU = target("opencl-nvidia")


@pytest.fixture(scope="module")
def on_gpu() -> Workload:
    """A matmul of ``n`` rows for a GPU, with code for ranges of rows."""
    function = kernel(lambda x, w: op.matmul(x, w), ((dim("n"), 384), "float32"), ((384, 1536), "float32"), target=GPU)
    return workload(function, GPU)


class Ranged(MadeUp):
    """At each point, one candidate is twice as fast as the others: the second one for one row, the third one for 64."""

    def __init__(self):
        super().__init__(self.time)

    def time(self, candidate: Candidate) -> Measured:
        seconds = [1.0 if self.measured != fast else 0.5 for fast in (2, 3)]
        if self.measured > 3:
            seconds = [0.5, 0.5]
        total = sum(point.weight * value for point, value in zip(candidate.points, seconds, strict=True))
        return Measured(candidate.number, "ok", (total,), samples_by_point=tuple((value,) for value in seconds))


def test_the_last_candidate_on_a_gpu_has_the_best_code_for_each_range(tmp_path: Path, on_gpu: Workload):
    run = search(tmp_path, on_gpu, 4)
    run.measuring = lambda: nullcontext(Ranged())
    assert run.run() == "budget"
    stored = run.store.load(run.context, on_gpu.key)
    assert [record.record.strategy for record in stored] == [RULE, "tile", "tile", "tile"]
    assert all(record.size_points == POINTS for record in stored)
    rule, second, third, combined = (read_trace(record.record.trace) for record in stored)
    assert combined[0] == second[0] != rule[0]
    last = range_of(rule, 64)
    assert combined[last] == third[last] != rule[last]


def test_code_that_gains_too_little_in_a_range_is_not_combined(tmp_path: Path, on_gpu: Workload):
    slightly = {1: 1.0, 2: 0.99, 3: 0.98}
    run = search(tmp_path, on_gpu, 4)
    measurer = Sized(lambda candidate: timed(candidate, slightly[measurer.measured]))
    run.measuring = lambda: nullcontext(measurer)
    # The combination is the rules' schedule, which is known.
    assert run.run() == EXHAUSTED and run.measured == 3
