"""Records from a lock: the same choice, byte for byte, whatever the store has got since, and without a device."""

from pathlib import Path

import pytest

from tests.lock.made import BEST, CONFIG, WORKLOADS, best_set, fill, plan_of, tasks
from tests.records.examples import CONTEXT, record, verdict
from tvmake.artifact import stage_json
from tvmake.errors import InputError
from tvmake.plan.plan import Plan, Variant
from tvmake.records.frozen import read_frozen
from tvmake.records.pick_locked import pick_locked
from tvmake.records.store import RecordStore, open_store

LOCK = Path("run.lock")
TUNED = "digits/float32/tuned"


def picked(variant: str = TUNED) -> bytes:
    """best.json as it is picked now."""
    pick_locked(Path(f"results/{TUNED}/tasks.json"), open_store(), LOCK, variant, Path("again.json"))
    return Path("again.json").read_bytes()


def test_the_choice_is_the_same_byte_for_byte(run: Plan):
    assert picked() == Path(f"results/{TUNED}/best.json").read_bytes()


def test_it_stays_the_same_when_the_store_grows_or_a_verdict_comes(run: Plan, store: RecordStore):
    fill(store, *(record(number, ms=0.1) for number in range(10, 20)))
    store.append(CONTEXT, WORKLOADS[0], [verdict(BEST, right=False)])
    assert picked() == Path(f"results/{TUNED}/best.json").read_bytes()


def test_it_is_the_same_in_a_store_that_got_the_records_in_another_order(run: Plan, store: RecordStore):
    store.journal(CONTEXT, WORKLOADS[0]).path.unlink()
    fill(store, record(30, ms=0.2), BEST, record(0, ms=1.0))
    assert picked() == Path(f"results/{TUNED}/best.json").read_bytes()


def test_a_record_that_is_not_here_is_named_with_a_way_to_get_it(run: Plan, store: RecordStore):
    store.journal(CONTEXT, WORKLOADS[0]).path.unlink()
    with pytest.raises(InputError, match=rf"the record {BEST.digest[:12]}… of conv is not in(?s:.*)bundle import"):
        picked()


def test_a_kernel_that_the_lock_does_not_know_has_no_record_and_says_so(run: Plan):
    listed = tasks()
    other = listed.tasks[0].model_copy(update={"workload": "e" * 64})
    stage_json.save(listed.model_copy(update={"tasks": [other]}), Path(f"results/{TUNED}/tasks.json"))
    picked()
    (kernel,) = stage_json.load(type(best_set(BEST)), Path("again.json")).kernels
    assert (kernel.record, kernel.reason) == (None, "run.lock has no record of it")


def test_a_variant_that_was_not_tuned_is_refused(run: Plan):
    with pytest.raises(InputError, match="has no records of digits/float32/cpu\n  tuned are digits/float32/tuned"):
        picked("digits/float32/cpu")
    with pytest.raises(InputError, match="has no data layout of digits/float32/tuned"):
        read_frozen(LOCK).layout_of(TUNED, LOCK)


def test_a_frozen_plan_asks_for_the_lock_and_for_no_trials():
    plan = plan_of({**CONFIG, "tuning": {"frozen": "run.lock"}})
    variant = Variant("digits", "float32", "tuned")
    job = plan.context(variant)
    assert job.lock_files == ["run.lock"]
    assert job.rounds == 0
    assert job.is_tuned
    assert plan_of().context(variant).lock_files == []
    # The lock is an input of the rule: where it lies is none of the stage's options.
    assert plan.options("pick_best", variant) == plan_of().options("pick_best", variant)
