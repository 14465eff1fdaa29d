"""Foreign records: those that crash or hang TVM must not reach a search."""

import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.patience import HANG_S
from tests.tune.graphs import kernel_workload
from tests.tune.replayed import record, traces
from tests.tune.search.test_search import DEVICE, TARGET, MadeUp, matmul, search
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.record import Record
from tvmake.records.store import RecordStore, StoredRecord
from tvmake.targets.backends import backend_of
from tvmake.tune.context import tuning_context
from tvmake.tune.search.cost_model import measured_features
from tvmake.tune.search.spaces import meta_schedule_context
from tvmake.tune.search.starts import starts_by_rule
from tvmake.tune.verify.record_validation import ValidRecord, validate_records

op = tvm.relax.op

KERNEL = matmul(64)
CONTEXT = tuning_context(TARGET, DEVICE)


@pytest.fixture(scope="module")
def good() -> list[Any]:
    """Schedules of the kernel."""
    return traces(KERNEL, 8)


def dividing_by_zero(trace: Any) -> Any:
    """A loop split into pieces of zero: TVM ends with SIGFPE."""
    damaged = copy.deepcopy(trace)
    damaged[1] = [[index, [0] * len(value) if isinstance(value, list) else value] for index, value in damaged[1]]
    return damaged


def without_a_name(trace: Any) -> Any:
    """An annotation by no name: TVM ends with SIGSEGV."""
    damaged = copy.deepcopy(trace)
    (last, *_) = [step for step in reversed(damaged[0]) if step[0] == "Unannotate"]
    last[2][0] = None
    return damaged


def parallel_by_a_list(trace: Any) -> Any:
    """It replays, but MetaSchedule hangs when it mutates the number of parallel loops."""
    damaged = copy.deepcopy(trace)
    (step,) = [entry for entry in damaged[0] if entry[0] == "Annotate" and entry[2] == ["meta_schedule.parallel"]]
    step[1][1] = [0]
    return damaged


def stored(trace: Any, **changes: object) -> StoredRecord:
    """A record from a store."""
    changed = record(trace).model_copy(update=changes)
    return StoredRecord(changed, changed.digest)


def validated(records: list[StoredRecord]) -> list[ValidRecord | Refused]:
    """All of them for the population, and to learn from."""
    context = meta_schedule_context(KERNEL, "evolutionary", 0, backend_of(TARGET).search_target(TARGET, 2), 1)
    results = validate_records(KERNEL, context, list(context.generate_design_space()), records, records)
    return [results[stored.digest] for stored in records]


def filled(root: Path, *records: Record) -> RecordStore:
    """A store with records of the kernel."""
    store = RecordStore(root)
    store.append(CONTEXT, KERNEL.key, list(records))
    return store


def test_metaschedules_own_schedules_seed_the_search_and_train_the_model(good: list[Any]):
    for result in validated([stored(trace) for trace in good]):
        assert result.tuning is not None and len(result.features) > 0


@pytest.mark.parametrize(
    ("damage", "how"),
    [(dividing_by_zero, "SIGFPE"), (without_a_name, "SIGSEGV"), (lambda _: "no trace", "not a trace")],
)
def test_a_trace_that_cannot_be_replayed_is_refused_and_the_others_are_used(good: list[Any], damage: Any, how: str):
    before, bad, after = validated([stored(good[0]), stored(damage(good[3])), stored(good[1])])
    assert isinstance(bad, Refused) and how in str(bad)
    assert before.tuning is not None and after.tuning is not None


def test_foreign_schedules_train_the_model_but_do_not_seed_the_search(good: list[Any]):
    foreign, own = validated([stored(parallel_by_a_list(good[0])), stored(good[1])])
    assert foreign.tuning is None and len(foreign.features) > 0
    assert own.tuning is not None


def test_records_without_features_are_not_unusable():
    # Twenty channels fill no tile of vectors: packed weights end in zeros.
    conv = (
        (lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OHWI")),
        ((1, 8, 8, 1), "float32"),
    )
    kernel = kernel_workload(*conv, ((20, 3, 3, 1), "float32"), weights=True)
    context = meta_schedule_context(
        kernel, "evolutionary", 0, backend_of(kernel.target).search_target(kernel.target, 2), 1
    )
    records = [stored(start.trace) for start in starts_by_rule(kernel)]
    (result,) = validate_records(kernel, context, list(context.generate_design_space()), records, records).values()
    assert isinstance(result, ValidRecord)
    assert result.tuning is None and result.features is None


def test_failed_records_teach_that_they_failed(good: list[Any]):
    failed = stored(good[1], status="timeout", samples_s=(), error="slow")
    features = measured_features(KERNEL, [(stored(good[0]), np.zeros((1, 2))), (failed, np.zeros((1, 2)))])
    assert [float(cost) for cost in features.costs] == [pytest.approx(1e-3), pytest.approx(1e10)]


@pytest.mark.parametrize("cost_model", ["xgb", pytest.param("random", marks=pytest.mark.soak)])
def test_a_search_over_hostile_records_reaches_its_budget_and_names_them_once(
    tmp_path: Path, good: list[Any], cost_model: str
):
    hostile = [dividing_by_zero(good[0]), without_a_name(good[1]), {"surprise": 1}]
    hostile.append(parallel_by_a_list(good[2]))
    store = filled(tmp_path, *(record(trace, 1e-3) for trace in hostile), record(good[3], 1e-2))
    warnings: list[str] = []
    run = search(tmp_path, MadeUp(), 13, cost_model=cost_model)
    run.warn = warnings.append
    assert run.run() == "budget"
    assert run.measured == 8
    (warning,) = warnings
    assert "3 unusable records left out (" in warning and "SIGFPE" in warning
    unusable = [loaded for loaded in store.load(CONTEXT, KERNEL.key) if loaded.outcome == "wrong_output"]
    assert [loaded.record.trace for loaded in unusable] == hostile[:3]
    again = search(tmp_path, MadeUp(), 14, cost_model=cost_model)
    again.warn = warnings.append
    assert again.run() == "budget"
    assert len(warnings) == 1


def test_exhausted_resources_of_a_fork_are_not_the_records_fault():
    def work(kind: str) -> bytes:
        if kind == "slow":
            time.sleep(HANG_S)
        if kind == "wrong":
            raise Refused("it is wrong")
        return kind.encode()

    first, slow, wrong, last = map_isolated(["a", "slow", "wrong", "b"], work, "it fails", limit_s=5)
    assert (first, last) == (b"a", b"b")
    assert (str(slow), slow.is_final) == ("it fails: TVM does not end within 5 s", False)
    assert (str(wrong), wrong.is_final) == ("it is wrong", True)
