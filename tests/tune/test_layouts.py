"""The kernels that represent a layout, and the choice of a layout."""

import pytest

from tvmake.artifact.tasks import Task
from tvmake.tune.layouts import (
    MAX_KERNELS,
    LayoutChoice,
    LayoutEstimate,
    MeasuredKernel,
    estimate,
    fastest,
    representative_kernels,
)


def task(name: str, flops: float, calls: int = 1, trivial: str | None = None) -> Task:
    return Task(workload=name, names=[name], calls=calls, flops=flops, trivial=trivial)


def timed(one: Task, latency_ms: float) -> MeasuredKernel:
    return MeasuredKernel(
        workload=one.workload, name=one.workload, calls=one.calls, flops=one.flops, trials=8, latency_ms=latency_ms
    )


def names(tasks: list[Task]) -> list[str]:
    return [one.workload for one in tasks]


def test_the_heaviest_kernels_are_measured_until_they_do_two_thirds_of_the_work():
    tasks = [task("a", 10, calls=4), task("b", 30), task("c", 20), task("d", 10)]
    assert names(representative_kernels({"NCHW": tasks})["NCHW"]) == ["a", "b"]


def test_of_many_small_kernels_only_a_handful_is_measured():
    tasks = [task(str(number), 1) for number in range(40)]
    assert len(representative_kernels({"NCHW": tasks})["NCHW"]) == MAX_KERNELS


def test_kernels_that_are_not_tuned_are_not_measured():
    assert representative_kernels({"NCHW": [task("a", 10, trivial="its shapes are dynamic")]}) == {"NCHW": []}


def test_transposes_that_only_one_layout_needs_are_measured_too():
    both = [task("conv", 10), task("concat", 0)]
    chosen = representative_kernels(
        {"NCHW": both, "NHWC": [*both, task("transpose", 0), task("tiny", 0, trivial="too little work")]}
    )
    assert {layout: names(tasks) for layout, tasks in chosen.items()} == {
        "NCHW": ["conv"],
        "NHWC": ["conv", "transpose"],
    }


def test_the_time_of_the_rest_is_as_that_of_the_work_measured():
    heavy, light = task("a", 30, calls=2), task("b", 20)
    made = estimate("NCHW", [heavy, light, task("c", 1000, trivial="left alone")], [timed(heavy, 3.0)])
    assert (made.estimate_ms, made.share) == (pytest.approx(3.0 * 2 * 80 / 60), 0.75)


def test_transposes_add_only_their_own_time():
    heavy, light, move = task("a", 60), task("b", 20), task("t", 0, calls=2)
    made = estimate("NHWC", [heavy, light, move], [timed(heavy, 3.0), timed(move, 0.5)])
    assert made.estimate_ms == pytest.approx(3.0 * 80 / 60 + 2 * 0.5)


def test_a_layout_with_nothing_to_tune_has_no_estimate():
    made = estimate("NCHW", [task("a", 10, trivial="its shapes are dynamic")], [])
    assert (made.estimate_ms, made.problem) == (None, "it has no kernels worth tuning")


def estimates(**times: float | None) -> list[LayoutEstimate]:
    return [
        LayoutEstimate(layout=layout, estimate_ms=ms, share=1, problem=None if ms else "nothing worked")
        for layout, ms in times.items()
    ]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"NCHW": 2.0, "NHWC": 1.0}, "NHWC"),
        ({"NCHW": 1.0, "NHWC": 1.0}, "NCHW"),
        ({"NCHW": None, "NHWC": 1.0}, "NHWC"),
        ({"NCHW": None, "NHWC": None}, "NCHW"),
    ],
)
def test_the_smallest_estimate_wins_and_the_first_of_equals(times: dict[str, float | None], expected: str):
    assert fastest(estimates(**times)) == expected


@pytest.mark.parametrize(
    ("chosen", "times", "said"),
    [
        ("NHWC", {"NCHW": 0.441, "NHWC": 0.31}, "NHWC, 0.31 ms against 0.441 ms NCHW"),
        ("NCHW", {"NCHW": 0.441, "NHWC": None}, "NCHW, 0.441 ms; NHWC: nothing worked"),
        ("NCHW", {}, "NCHW, all layouts come to the same network"),
    ],
)
def test_the_choice_in_one_line(chosen: str, times: dict[str, float | None], said: str):
    assert LayoutChoice(layout=chosen, trials=8, estimates=estimates(**times)).summary == said
