"""Traces of kernels with code for ranges of sizes."""

import json

import pytest

from tvmake.artifact.range_traces import RangeSchedule, range_of, read_trace, write_trace

RANGES = [RangeSchedule(3, "Windows", (4,)), RangeSchedule(100, "Products", (8, 16, 2, 4, 8, 32))]


def test_ranges_are_read_back_from_json():
    assert read_trace(json.loads(json.dumps(write_trace(RANGES)))) == RANGES


def test_a_trace_of_meta_schedule_has_no_ranges():
    assert read_trace([[["GetSBlock", [], ["matmul", "main"], ["b0"]]], []]) is None
    assert read_trace([[], []]) is None


@pytest.mark.parametrize(
    "step",
    [
        ["SizeRange", [200], ["Products"]],
        ["SizeRange", [200], ["Products", 8.5], []],
        ["SizeRange", [200], ["Products", 0], []],
        ["SizeRange", ["200"], ["Products", 8], []],
        ["SizeRange", [], ["Products", 8], []],
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ],
)
def test_other_steps_among_ranges_are_refused(step: list):
    steps, _ = write_trace(RANGES)
    with pytest.raises(ValueError, match=r"^not ranges of sizes, each with a rule and its parameters$"):
        read_trace([[*steps, step], []])


def test_ranges_that_do_not_follow_each_other_are_refused():
    steps, decisions = write_trace([*RANGES, RANGES[0]])
    with pytest.raises(ValueError, match=r"^not ranges of sizes: their largest sizes are 3, 100, 3$"):
        read_trace([steps, decisions])


def test_the_last_range_contains_all_larger_sizes():
    assert [range_of(RANGES, size) for size in (1, 3, 4, 100, 5000)] == [0, 0, 1, 1, 1]
