import pytest

from tvmake.benchmark.ops import KernelCall, kernel_table


def calls(*pairs):
    return [KernelCall(kernel=kernel, duration_ms=ms) for kernel, ms in pairs]


def test_calls_are_gathered_by_kernel_per_run_with_the_most_expensive_first():
    rows = kernel_table(calls(("relu", 1), ("conv", 3), ("conv", 5), ("relu", 1), ("conv", 4), ("conv", 6)), runs=2)
    assert [(row.kernel, row.calls, row.total_ms, row.median_ms) for row in rows] == [
        ("conv", 2.0, 9.0, 4.5),
        ("relu", 1.0, 1.0, 1.0),
    ]
    assert [row.share for row in rows] == [0.9, 0.1]


def test_a_call_that_was_interrupted_does_not_make_its_kernel_the_most_expensive():
    rows = kernel_table(calls(*[("conv", 3), ("relu", 1)] * 4, ("conv", 3), ("relu", 900)), runs=5)
    assert [(row.kernel, row.total_ms) for row in rows] == [("conv", 3), ("relu", 1)]


def test_equal_times_are_ordered_by_name_so_that_tables_are_stable():
    assert [row.kernel for row in kernel_table(calls(("b", 1), ("a", 1), ("c", 1)))] == ["a", "b", "c"]


def test_no_calls_and_no_time_make_no_division_by_zero():
    assert kernel_table([]) == []
    assert kernel_table(calls(("a", 0)))[0].share == 0


def test_a_profile_without_runs_is_refused():
    with pytest.raises(ValueError, match="at least one run"):
        kernel_table([], runs=0)
