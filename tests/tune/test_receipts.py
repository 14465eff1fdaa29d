"""A variant is built from the records that its kernels' receipts count."""

from pathlib import Path

import pytest

from tests.records.examples import CONTEXT, CONV, DEVICE, OTHER_CONTEXT, digests, record, verdict
from tvmake.artifact.size_points import SizePoint
from tvmake.errors import MachineError
from tvmake.records.prune import Rules, prune
from tvmake.records.record import Comparison, PointSamples
from tvmake.records.store import RecordStore
from tvmake.tune.receipts import Receipt, curve, records_of_receipt

MEASURED = [record(1, ms=3.0), record(2, ms=None), record(3, ms=2.0)]


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """Three records of a kernel."""
    store = RecordStore(tmp_path)
    store.append(CONTEXT, CONV, MEASURED)
    return store


def receipt_now(store: RecordStore) -> Receipt:
    """The receipt that a tuning job would write now."""
    stored = store.load(CONTEXT, CONV)
    statuses = [one.status for one in stored]
    return Receipt(
        workload=CONV,
        name="conv",
        place=CONTEXT,
        flops=1e6,
        trials=len(stored),
        measured_now=0,
        stopped="budget",
        by_status={status: statuses.count(status) for status in statuses},
        curve=curve(stored),
    )


def test_later_records_of_others_do_not_count(store: RecordStore):
    receipt = receipt_now(store)
    store.append(CONTEXT, CONV, [record(4, ms=1.0)])
    assert digests(records_of_receipt(store, CONTEXT, CONV, receipt)[0]) == digests(MEASURED)
    assert len(records_of_receipt(store, CONTEXT, CONV, receipt_now(store))[0]) == 4


def test_a_verdict_counts_at_any_time(store: RecordStore):
    receipt = receipt_now(store)
    store.append(CONTEXT, CONV, [record(4, ms=1.0), verdict(MEASURED[2], right=False)])
    assert [one.outcome for one in records_of_receipt(store, CONTEXT, CONV, receipt)[0]] == [
        "ok",
        "run_error",
        "wrong_output",
    ]


def test_the_remaining_records_count_after_pruning(store: RecordStore):
    receipt = receipt_now(store)
    prune(store, Rules(keep_best=1), apply=True)
    assert digests(records_of_receipt(store, CONTEXT, CONV, receipt, timeout_s=0)[0]) == digests(MEASURED[1:])


def test_a_store_that_lacks_the_records_is_an_error_that_says_how_many(store: RecordStore, tmp_path: Path):
    with pytest.raises(MachineError, match="has 0 of the 3 records that the tuning of conv left"):
        records_of_receipt(RecordStore(tmp_path / "other"), CONTEXT, CONV, receipt_now(store), timeout_s=0)


def test_the_comparison_that_the_receipt_names_counts_whatever_was_compared_since(store: RecordStore):
    earlier, later = (
        Comparison(samples_s={MEASURED[0].digest: (1e-3,)}, compared_at=f"2026-07-0{day}", device=DEVICE)
        for day in (1, 2)
    )
    store.append(CONTEXT, CONV, [earlier, later])
    receipt = receipt_now(store)
    assert records_of_receipt(store, CONTEXT, CONV, receipt)[1] is None
    named = receipt.model_copy(update={"comparison": earlier.digest})
    assert records_of_receipt(store, CONTEXT, CONV, named)[1] == earlier
    assert records_of_receipt(store, CONTEXT, CONV, None)[1] == later


def test_a_comparison_that_is_not_visible_yet_is_waited_for(store: RecordStore):
    receipt = receipt_now(store).model_copy(update={"comparison": "0" * 64})
    with pytest.raises(MachineError, match="lacks the comparison"):
        records_of_receipt(store, CONTEXT, CONV, receipt, timeout_s=0)


def test_a_receipt_of_another_kind_of_device_is_ignored(store: RecordStore):
    receipt = receipt_now(store).model_copy(update={"place": OTHER_CONTEXT})
    assert digests(records_of_receipt(store, CONTEXT, CONV, receipt, timeout_s=0)[0]) == digests(MEASURED)


def test_records_at_other_sizes_of_dynamic_dimensions_do_not_count(store: RecordStore):
    point = SizePoint(sizes={"n": 8}, weight=1.0)
    samples = PointSamples(sizes={"n": 8}, weight=1.0, samples_s=(1e-3,))
    sized = record(4, ms=1.0).model_copy(update={"points": (samples,)})
    store.append(CONTEXT, CONV, [sized])
    receipt = receipt_now(store).model_copy(update={"points": (point,), "by_status": {"ok": 1}})
    assert digests(records_of_receipt(store, CONTEXT, CONV, receipt)[0]) == [sized.digest]
    assert digests(records_of_receipt(store, CONTEXT, CONV, None)[0]) == digests(MEASURED)
    assert digests(records_of_receipt(store, CONTEXT, CONV, None, points=(point,))[0]) == [sized.digest]
