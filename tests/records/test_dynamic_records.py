"""Records of kernels with dynamic dimensions: measured at several sizes, and compared only at equal ones."""

import json
from pathlib import Path

import pytest

from tests.records.examples import CONTEXT, CONV, DEVICE, digests, record
from tvmake.artifact.size_points import MOST_POINTS, SizePoint, merge_points, parse_points, points_text
from tvmake.errors import InputError
from tvmake.records.plausible import implausible, implausible_comparison
from tvmake.records.preference import MARGIN, MOST_LOSS, latest_sizes, sort_by_preference
from tvmake.records.prune import Rules, prune
from tvmake.records.record import Comparison, PointSamples, Record
from tvmake.records.store import RecordStore, of_sizes
from tvmake.records.summary import summarise, workload_details

POINTS = (SizePoint(sizes={"n": 1}, weight=0.5), SizePoint(sizes={"n": 100}, weight=0.5))
LATER = "2026-03-02T12:00:00+00:00"


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """An empty store."""
    return RecordStore(tmp_path)


def point_samples(milliseconds: tuple[float, ...], points: tuple[SizePoint, ...] = POINTS) -> tuple[PointSamples, ...]:
    """Samples at each point, in ms."""
    return tuple(
        PointSamples(**point.model_dump(), samples_s=(ms / 1e3,))
        for point, ms in zip(points, milliseconds, strict=True)
    )


def dynamic(number: int, *milliseconds: float, strategy: str = "tile", **options: object) -> Record:
    """A record with one sample at each point."""
    points = options.pop("points", POINTS)
    total = sum(point.weight * ms for point, ms in zip(points, milliseconds, strict=True)) / 1e3
    figures = {"samples_s": (total,), "points": point_samples(milliseconds, points), "strategy": strategy}
    return record(number, **options).model_copy(update=figures)


def order(store: RecordStore, records: list[Record], comparison: Comparison | None = None) -> list[int]:
    """The numbers of records in order of preference."""
    store.append(CONTEXT, CONV, records)
    numbers = {one.digest: number for number, one in enumerate(records)}
    return [numbers[one.digest] for one in sort_by_preference(store.load(CONTEXT, CONV), comparison)]


def test_points_are_stored_and_read_with_a_record_and_without_its_trace(store: RecordStore):
    written = dynamic(1, 1.0, 20.0)
    store.append(CONTEXT, CONV, [written])
    (stored,) = RecordStore(store.root).load(CONTEXT, CONV)
    assert stored.size_points == POINTS and stored.points == written.points
    assert stored.record == written and stored.latency_ms == pytest.approx(10.5)


def test_a_record_without_points_has_the_bytes_and_the_name_of_former_versions():
    assert "points" not in record(1).model_dump(mode="json")
    assert record(1).digest == "23b2ad8ca694bfbc410c4ef6cd9444be863e5fa14e9f556fe5ec6ba39444a193"


def test_only_records_at_the_wanted_sizes_are_used(store: RecordStore):
    other = dynamic(2, 1.0, points=POINTS[:1])
    store.append(CONTEXT, CONV, [dynamic(1, 1.0, 2.0), other, record(3)])
    stored = store.load(CONTEXT, CONV)
    assert digests(of_sizes(stored, POINTS[:1])) == [other.digest]
    assert digests(of_sizes(stored, ())) == [record(3).digest]


def test_each_size_counts_relative_to_the_rules_schedule(store: RecordStore):
    """In milliseconds, the gain at the small size would not show."""
    rule = dynamic(1, 1.0, 100.0, strategy="rule")
    small, large = dynamic(2, 0.5, 101.0), dynamic(3, 1.0, 90.0)
    assert order(store, [rule, small, large]) == [1, 2, 0]


def test_a_record_that_is_much_slower_at_one_size_comes_after_the_rules_schedule(store: RecordStore):
    rule = dynamic(1, 1.0, 100.0, strategy="rule")
    slow, fair = dynamic(2, 0.2, 100.0 * (1 + MOST_LOSS) + 1), dynamic(3, 0.2, 100.0 * (1 + MOST_LOSS) - 1)
    assert order(store, [rule, slow, fair]) == [2, 0, 1]


def test_the_rules_schedule_has_its_margin(store: RecordStore):
    rule = dynamic(1, 1.0, 100.0, strategy="rule")
    close, clear = dynamic(2, 1 - MARGIN / 2, 99.0), dynamic(3, 0.9, 95.0)
    assert order(store, [rule, close, clear]) == [2, 0, 1]


def test_what_was_compared_is_ranked_by_its_samples_of_the_comparison(store: RecordStore):
    rule, one, two = dynamic(1, 1.0, 100.0, strategy="rule"), dynamic(2, 0.1, 10.0), dynamic(3, 0.9, 90.0)
    samples = {rule.digest: (1.0, 100.0), one.digest: (1.5, 150.0), two.digest: (0.8, 80.0)}
    comparison = Comparison(
        samples_s={digest: (sum(ms) / 2e3,) for digest, ms in samples.items()},
        points={digest: point_samples(ms) for digest, ms in samples.items()},
        compared_at=LATER,
        device=DEVICE,
    )
    assert order(store, [rule, one, two], comparison) == [2, 0, 1]


def test_without_the_rules_schedule_the_weighted_time_decides(store: RecordStore):
    assert order(store, [dynamic(1, 1.0, 100.0), dynamic(2, 0.5, 101.0)]) == [0, 1]


def test_pruning_keeps_the_best_at_each_choice_of_sizes(store: RecordStore):
    kept = [dynamic(1, 1.0, 2.0), dynamic(2, 9.0, points=POINTS[1:])]
    store.append(CONTEXT, CONV, [*kept, dynamic(3, 3.0, 4.0), dynamic(4, 10.0, points=POINTS[1:])])
    prune(store, Rules(keep_best=1), apply=True)
    assert digests(store.load(CONTEXT, CONV)) == digests(kept)


def test_a_summary_is_of_the_sizes_that_were_measured_last(store: RecordStore):
    """A record at small sizes would otherwise look best."""
    small, large = dynamic(1, 0.1, points=POINTS[:1]), dynamic(2, 1.0, 9.0, at=LATER)
    store.append(CONTEXT, CONV, [small, large])
    assert digests(latest_sizes(store.load(CONTEXT, CONV))) == [large.digest]
    assert summarise(store, CONTEXT, CONV).latency_ms == pytest.approx(5.0)
    (shown,) = workload_details(store, CONTEXT, CONV, 5)["records"]
    assert [(point["sizes"], point["samples_ms"]) for point in shown["points"]] == [
        ({"n": 1}, [1.0]),
        ({"n": 100}, [9.0]),
    ]


def test_impossible_samples_at_a_size_are_refused():
    broken = dynamic(1, 1.0, 0.0)
    assert implausible(broken) == "a sample of 0 s"
    comparison = Comparison(
        samples_s={broken.digest: (1.0,)}, points={broken.digest: broken.points}, compared_at=LATER, device=DEVICE
    )
    assert implausible_comparison(comparison) == "a sample of 0 s"


def test_equal_points_are_merged_and_weights_add_up_to_1():
    merged = merge_points([POINTS[1], POINTS[0], POINTS[1]])
    assert [(point.sizes["n"], point.weight) for point in merged] == [(1, 0.333333), (100, 0.666667)]
    assert merge_points(merged) == merged


def test_of_many_points_evenly_distributed_ones_remain():
    merged = merge_points(SizePoint(sizes={"n": number}) for number in range(1, 10))
    assert [point.sizes["n"] for point in merged] == [1, 3, 5, 7, 9]
    assert len(merged) == MOST_POINTS


def test_points_of_a_command_are_read_back_and_others_refused():
    assert parse_points(points_text(POINTS)) == POINTS
    with pytest.raises(InputError, match=r"^--points: is not a JSON list of sizes"):
        parse_points(json.dumps([{"sizes": {"n": -1}}]))
