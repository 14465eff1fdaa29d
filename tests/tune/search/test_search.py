"""The search for one kernel. Latencies are computed from the schedule, so that a run is repeatable."""

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm
from tvm import te

from tvmake.config.requests.tuning import SearchOptions
from tvmake.device.fingerprint import local_fingerprint
from tvmake.errors import DeviceError
from tvmake.records.record import TuningContext
from tvmake.records.store import RecordStore
from tvmake.records.workload import Workload, workload
from tvmake.storage.files import canonical_json
from tvmake.targets.backends import backend_of
from tvmake.tune.context import tuning_context
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.search.search import MAX_FAILURES, Search

TARGET = tvm.target.Target({"kind": "llvm"})
DEVICE = local_fingerprint(2)


def matmul(extent: int, target: tvm.target.Target = TARGET) -> Workload:
    """A square matmul."""
    a, b = (te.placeholder((extent, extent), "float32", name) for name in "ab")
    k = te.reduce_axis((0, extent), "k")
    c = te.compute((extent, extent), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    return workload(te.create_prim_func([a, b, c]), target)


class Interrupted(Exception):
    """Simulates the death of the job."""


class MadeUp:
    """Assigns every candidate the latency of its code's digest."""

    def __init__(self, answer: Callable[[Candidate], Measured] | None = None, dies_after: int | None = None):
        self.answer = answer or self.latency
        self.dies_after = dies_after
        self.measured = 0

    @staticmethod
    def latency(candidate: Candidate) -> Measured:
        code = tvm.ir.save_json(candidate.module).encode()
        return Measured(candidate.number, "ok", (1e-3 + int(hashlib.sha256(code).hexdigest()[:6], 16) * 1e-9,))

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        for candidate in candidates:
            if self.measured == self.dies_after:
                raise Interrupted
            self.measured += 1
            yield self.answer(candidate)

    def close(self) -> None:
        """Nothing to close."""


def search(root: Path, measurer: MadeUp, trials: int, extent: int = 64, **options: object) -> Search:
    """A search that has not run."""
    given = {"cost_model": "random", "batch": 4, "population": 16, **options}
    return Search(
        workload=matmul(extent),
        context=tuning_context(TARGET, DEVICE),
        store=RecordStore(root),
        measuring=lambda: nullcontext(measurer),
        device=DEVICE,
        options=SearchOptions(**given),
        trials=trials,
        target=backend_of(TARGET).search_target(TARGET, 2),
        threads=1,
    )


def traces(root: Path, where: TuningContext, key: str) -> list[str]:
    """The schedules in a store."""
    return [canonical_json(one.record.trace) for one in RecordStore(root).load(where, key)]


@pytest.mark.parametrize("cost_model", ["xgb", "random"])
def test_a_search_measures_as_many_different_candidates_as_it_may(tmp_path: Path, cost_model: str):
    run = search(tmp_path, MadeUp(), 10, cost_model=cost_model)
    assert run.run() == "budget"
    found = traces(tmp_path, run.context, run.workload.key)
    assert len(found) == len(set(found)) == run.measured == 10


def test_candidates_in_the_store_count(tmp_path: Path):
    assert search(tmp_path, MadeUp(), 6).run() == "budget"
    more = search(tmp_path, MadeUp(), 10)
    assert more.run() == "budget"
    assert more.measured == 4
    again = search(tmp_path, MadeUp(), 10)
    assert again.run() == "budget"
    assert again.measured == 0


def test_a_search_without_measurements_opens_no_device(tmp_path: Path):
    search(tmp_path, MadeUp(), 6).run()
    again = search(tmp_path, MadeUp(), 6)
    again.measuring = lambda: pytest.fail("opened")
    assert again.run() == "budget"


def test_a_search_that_dies_has_stored_everything_it_measured(tmp_path: Path):
    with pytest.raises(Interrupted):
        search(tmp_path, MadeUp(dies_after=7), 12).run()
    rest = search(tmp_path, MadeUp(), 12)
    rest.run()
    assert rest.measured == 5


@pytest.fixture(scope="module", params=["xgb", "random"])
def evolved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A cost model, and where an undisturbed evolution with it has its records, and the search."""
    place = tmp_path_factory.mktemp("undisturbed")
    made = search(place, MadeUp(), 50, cost_model=request.param)
    made.run()
    return request.param, place, made


@pytest.mark.parametrize(
    "deaths", [(3, 11, 9, 2, 14), *(pytest.param(one, marks=pytest.mark.soak) for one in ((5,), (16, 1)))]
)
def test_an_interrupted_evolution_ends_as_an_undisturbed_one(tmp_path: Path, evolved, deaths: tuple[int, ...]):
    cost_model, place, undisturbed = evolved
    options = {"cost_model": cost_model}
    for death in deaths:
        with pytest.raises(Interrupted):
            search(tmp_path / "b", MadeUp(dies_after=death), 50, **options).run()
    resumed = search(tmp_path / "b", MadeUp(), 50, **options)
    resumed.run()
    assert resumed.measured == 50 - sum(deaths)
    key = resumed.workload.key
    assert traces(tmp_path / "b", resumed.context, key) == traces(place, resumed.context, key)
    assert resumed.best_ms == undisturbed.best_ms


def test_a_larger_budget_continues_where_the_smaller_one_ended(tmp_path: Path):
    for trials in (14, 30, 50):
        search(tmp_path / "b", MadeUp(), trials, cost_model="xgb").run()
    once = search(tmp_path / "a", MadeUp(), 50, cost_model="xgb")
    once.run()
    key = once.workload.key
    assert traces(tmp_path / "b", once.context, key) == traces(tmp_path / "a", once.context, key)


def test_no_code_is_measured_twice(tmp_path: Path):
    modules: list[str] = []

    def noting(candidate: Candidate) -> Measured:
        modules.append(tvm.ir.save_json(candidate.module))
        return MadeUp.latency(candidate)

    for trials in (20, 60):
        search(tmp_path, MadeUp(noting), trials, 16, cost_model="xgb").run()
    assert len(modules) == len(set(modules)) == 60


def test_the_seed_repeats_a_search(tmp_path: Path):
    runs = [search(tmp_path / name, MadeUp(), 40, cost_model="xgb", seed=3) for name in "ab"]
    for run in runs:
        run.run()
    first, second = (
        traces(tmp_path / name, run.context, run.workload.key) for name, run in zip("ab", runs, strict=True)
    )
    assert first == second


def test_a_candidate_whose_device_was_lost_is_tried_again_by_the_next_run(tmp_path: Path):
    def gone(candidate: Candidate) -> Measured:
        return Measured(candidate.number, "device_lost", error="gone")

    with pytest.raises(DeviceError, match="device lost: gone"):
        search(tmp_path, MadeUp(gone), 1000).run()
    again = search(tmp_path, MadeUp(), 60)
    assert again.run() == "budget"
    stored = RecordStore(tmp_path).load(again.context, again.workload.key)
    # Later batches depend on the measurements of this one.
    lost, measured = (
        {canonical_json(one.record.trace) for one in stored if one.status == status and one.record.batch == 0}
        for status in ("device_lost", "ok")
    )
    assert lost
    assert lost <= measured


def test_short_cuda_kernels_that_were_timed_launch_by_launch_are_measured_again(tmp_path: Path):
    def by_graph(candidate: Candidate) -> Measured:
        return replace(MadeUp.latency(candidate), conditions={"timer": "CUDA graph"})

    def cuda(measurer: MadeUp, trials: int) -> Search:
        target = tvm.target.Target({"tag": "nvidia/nvidia-h100"})
        made = search(tmp_path, measurer, trials)
        made.workload, made.target = matmul(64, target), backend_of(target).search_target(target, 2)
        made.context = tuning_context(target, DEVICE)
        return made

    old, new, more = cuda(MadeUp(), 3), cuda(MadeUp(by_graph), 4), cuda(MadeUp(by_graph), 5)
    for run in (old, new, more):
        run.run()
    assert [run.measured for run in (old, new, more)] == [3, 4, 1]
    found = traces(tmp_path, new.context, new.workload.key)
    assert found[:3] == found[3:6]


def test_a_search_ends_with_its_space(tmp_path: Path):
    run = search(tmp_path, MadeUp(), 1_000_000, 2, batch=64)
    assert run.run() == "space exhausted"
    assert run.measured > 1


def test_a_search_without_progress_stops_early(tmp_path: Path):
    def slower(candidate: Candidate) -> Measured:
        slower.calls += 1
        return Measured(candidate.number, "ok", (slower.calls * 1e-3,))

    slower.calls = 0
    run = search(tmp_path, MadeUp(slower), 100, early_stopping=8)
    assert run.run() == "early stopping"
    assert 8 < run.measured <= 12


def test_a_deadline_stops_it(tmp_path: Path):
    run = search(tmp_path, MadeUp(), 1000, deadline_s=1e-9)
    assert run.run() == "deadline"


def test_a_deadline_stops_it_in_the_middle_of_a_batch_and_what_was_measured_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = [0.0]
    monkeypatch.setattr("tvmake.tune.search.search.time", SimpleNamespace(monotonic=lambda: now[0]))

    def slowly(candidate: Candidate) -> Measured:
        now[0] += 0.3
        return MadeUp.latency(candidate)

    run = search(tmp_path, MadeUp(slowly), 1000, batch=64, population=64, deadline_s=4.0)
    assert run.run() == "deadline"
    assert len(traces(tmp_path, run.context, run.workload.key)) == run.measured
    assert run.measured == 14  # the schedules of the rules, and a part of the first batch
    undisturbed = search(tmp_path / "other", MadeUp(), run.measured, batch=64, population=64)
    undisturbed.run()
    assert traces(tmp_path, run.context, run.workload.key) == traces(tmp_path / "other", run.context, run.workload.key)


def test_a_search_without_working_candidates_stops_with_a_reason(tmp_path: Path):
    def failing(candidate: Candidate) -> Measured:
        return Measured(candidate.number, "build_error", error="LLVM knows no such thing")

    run = search(tmp_path, MadeUp(failing), 500)
    with pytest.raises(DeviceError, match="the first failed with build error: LLVM knows no such thing"):
        run.run()
    assert MAX_FAILURES <= run.measured < MAX_FAILURES + run.options.batch


def test_impossible_figures_are_failures(tmp_path: Path):
    def broken_clock(candidate: Candidate) -> Measured:
        return Measured(candidate.number, "ok", (0.0,))

    run = search(tmp_path, MadeUp(broken_clock), 4)
    with pytest.raises(DeviceError, match="a sample of 0 s"):
        run.run()
    assert {one.status for one in run.store.load(run.context, run.workload.key)} == {"run_error"}


def test_a_candidate_whose_device_was_lost_does_not_count(tmp_path: Path):
    lost = iter([True, False, False, True])

    def sometimes(candidate: Candidate) -> Measured:
        if next(lost, False):
            return Measured(candidate.number, "device_lost", error="gone")
        return MadeUp.latency(candidate)

    run = search(tmp_path, MadeUp(sometimes), 6)
    assert run.run() == "budget"
    statuses = [one.status for one in run.store.load(run.context, run.workload.key)]
    assert statuses.count("ok") == 6
    assert statuses.count("device_lost") == 2


def test_a_candidate_whose_device_was_lost_is_measured_again_when_it_is_proposed_again(tmp_path: Path):
    lost = iter([False, True])

    def once(candidate: Candidate) -> Measured:
        if next(lost, False):
            return Measured(candidate.number, "device_lost", error="gone")
        return MadeUp.latency(candidate)

    with pytest.raises(Interrupted):
        search(tmp_path, MadeUp(once, dies_after=3), 4).run()
    run = search(tmp_path, MadeUp(), 4)  # the same seed proposes the same candidates
    run.run()
    stored = run.store.load(run.context, run.workload.key)
    gone = next(one for one in stored if one.status == "device_lost")
    assert [one.status for one in stored if one.record.trace == gone.record.trace] == ["device_lost", "ok"]
