"""Which of a kernel's records a package prefers."""

from pathlib import Path

import pytest

from tests.records.examples import CONTEXT, CONV, DEVICE, record, verdict
from tvmake.errors import InputError
from tvmake.records.preference import MARGIN, latency_ms, latest_comparison, sort_by_preference
from tvmake.records.prune import Rules, prune
from tvmake.records.record import Comparison, Record
from tvmake.records.store import RecordStore


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """An empty store."""
    return RecordStore(tmp_path)


def compare(*milliseconds: tuple[Record, list[float]], at: str = "2026-07-01T00:00:00+00:00") -> Comparison:
    """A comparison with these samples, in ms."""
    samples = {one.digest: tuple(value / 1e3 for value in values) for one, values in milliseconds}
    return Comparison(samples_s=samples, compared_at=at, device=DEVICE)


def order(store: RecordStore, comparison: Comparison | None, *records: Record) -> list[int]:
    """The numbers of the records in order of preference."""
    numbers = {one.digest: number for number, one in enumerate(records)}
    return [numbers[one.digest] for one in sort_by_preference(store.load(CONTEXT, CONV), comparison)]


def test_without_a_comparison_the_fastest_median_is_taken_but_the_rule_has_a_margin(store: RecordStore):
    rule = record(1, ms=2.0).model_copy(update={"strategy": "rule"})
    fastest = min(rule.samples_s) * 1e3
    close, clear = (record(2, ms=fastest / (1 + MARGIN) + step) for step in (0.01, -0.01))
    failed = record(4, ms=None)
    store.append(CONTEXT, CONV, [rule, close, clear, failed])
    assert order(store, None, rule, close, clear, failed) == [2, 0, 1], "what failed is nobody's choice"


def test_what_was_compared_comes_first_by_its_fastest_sample(store: RecordStore):
    one, two, lucky = record(1, ms=2.0), record(2, ms=3.0), record(3, ms=1.0)
    store.append(CONTEXT, CONV, [one, two, lucky])
    assert order(store, compare((one, [9.0, 2.2]), (two, [2.1, 2.5])), one, two, lucky) == [1, 0, 2]


def test_a_latency_is_that_of_the_comparison_where_there_is_one(store: RecordStore):
    one, wrong = record(1, ms=50.0), record(2, ms=1.0)
    store.append(CONTEXT, CONV, [one, wrong, verdict(wrong, right=False)])
    compared, refused = store.load(CONTEXT, CONV)
    comparison = compare((one, [2.0, 4.0, 3.0]), (wrong, [1.0]))
    assert latency_ms(compared, comparison) == pytest.approx(3.0)
    assert latency_ms(compared, None) == pytest.approx(50.0)
    assert latency_ms(refused, comparison) is None


def test_the_rule_has_its_margin_in_a_comparison_too(store: RecordStore):
    rule, other = record(1, ms=2.0).model_copy(update={"strategy": "rule"}), record(2, ms=2.0)
    store.append(CONTEXT, CONV, [rule, other])
    assert order(store, compare((rule, [2.0]), (other, [2.0 / (1 + MARGIN) + 0.01])), rule, other) == [0, 1]
    assert order(store, compare((rule, [2.0]), (other, [2.0 / (1 + MARGIN) - 0.01])), rule, other) == [1, 0]


def test_a_record_that_was_found_wrong_is_nobodys_choice(store: RecordStore):
    one, two = record(1, ms=2.0), record(2, ms=3.0)
    store.append(CONTEXT, CONV, [one, two, verdict(one, right=False)])
    assert order(store, compare((one, [1.0]), (two, [2.0])), one, two) == [1]


def test_the_latest_comparison_counts_in_whatever_order_they_came(store: RecordStore):
    one = record(1)
    early, late = (
        compare((one, [1.0]), at="2026-07-01T00:00:00+00:00"),
        compare((one, [2.0]), at="2026-07-02T00:00:00+02:00"),
    )
    store.append(CONTEXT, CONV, [one, late, early])
    assert latest_comparison(store.comparisons(CONTEXT, CONV)) == late
    assert latest_comparison({}) is None


def test_a_comparison_is_stored_once_and_beside_the_records(store: RecordStore):
    one = record(1)
    comparison = compare((one, [1.0, 2.0]))
    store.append(CONTEXT, CONV, [one, comparison])
    store.append(CONTEXT, CONV, [comparison])
    assert store.comparisons(CONTEXT, CONV) == {comparison.digest: comparison}
    assert len(store.load(CONTEXT, CONV)) == 1


@pytest.mark.parametrize(
    ("samples", "problem"),
    [([], "compares nothing"), ([-1.0], "a sample of"), ([float("nan")], "cannot be written as JSON|a sample of")],
)
def test_a_comparison_that_cannot_be_true_is_refused(store: RecordStore, samples: list[float], problem: str):
    with pytest.raises(InputError, match=problem):
        store.append(CONTEXT, CONV, [compare((record(1), samples))])


def test_pruning_keeps_what_packages_take_and_its_comparison(store: RecordStore):
    taken, fastest, other = record(1, ms=3.0), record(2, ms=1.0), record(3, ms=2.0)
    comparison = compare((taken, [1.0]), (fastest, [2.0]))
    store.append(CONTEXT, CONV, [taken, fastest, other, comparison])
    prune(store, Rules(keep_best=1), apply=True)
    assert {one.digest for one in store.load(CONTEXT, CONV)} == {taken.digest, fastest.digest}
    assert latest_comparison(store.comparisons(CONTEXT, CONV)) == comparison
