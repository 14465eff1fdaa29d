"""Candidates for kernels with code for ranges of sizes, and the kernels of their records."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import tvm
import tvm_ffi

from tests.targets.adreno_texture.nets import op, target
from tests.tune.dynamic import dim
from tests.tune.graphs import kernel
from tvmake.artifact.range_traces import RangeSchedule
from tvmake.targets.backends import backend_of
from tvmake.targets.gpu.ranges.range_schedules import FURTHER

NVIDIA = target("opencl-nvidia")
BACKEND = backend_of(NVIDIA)
F32 = "float32"
POINTS = [{"n": size} for size in (1, 3, 15, 60)]

KERNELS = {
    "matmul": lambda: kernel(
        lambda x, w: op.nn.relu(op.matmul(x, w)), ((dim("n"), 96), F32), ((96, 160), F32), target=NVIDIA
    ),
    "convolution": lambda: kernel(
        lambda x, w: op.nn.conv2d(x, w, padding=1), ((dim("n"), 32, 14, 14), F32), ((48, 32, 3, 3), F32), target=NVIDIA
    ),
}

Candidates = list[tuple[list[RangeSchedule], Any]]


@pytest.fixture(scope="module", params=KERNELS)
def function(request: pytest.FixtureRequest) -> Any:
    return KERNELS[request.param]()


@pytest.fixture(scope="module")
def candidates(function: Any) -> Candidates:
    return list(BACKEND.ranged_kernels(function, NVIDIA, POINTS))


def test_candidates_have_other_parameters_of_the_same_rules(candidates: Candidates):
    (rules, _), *others = candidates
    assert 3 <= len(others) <= FURTHER
    for ranges, _ in others:
        assert [(part.largest, part.rule) for part in ranges] == [(part.largest, part.rule) for part in rules]
    assert len({tuple(ranges) for ranges, _ in candidates}) == len(candidates)


def test_candidates_have_other_code(candidates: Candidates):
    kernels = [scheduled for _, scheduled in candidates]
    assert not any(tvm_ffi.structural_equal(before, after) for before, after in pairwise(kernels))


def test_sizes_above_the_largest_point_keep_the_rules_schedule(candidates: Candidates):
    (rules, _), *others = candidates
    assert rules[-2].largest == 60 < rules[-1].largest
    assert all(ranges[-1] == rules[-1] for ranges, _ in others)


def test_ranges_without_a_point_keep_the_rules_schedule(function: Any):
    (rules, _), *others = BACKEND.ranged_kernels(function, NVIDIA, [POINTS[0], POINTS[-1]])
    inner = slice(1, len(rules) - 2)
    assert all(ranges[inner] == rules[inner] for ranges, _ in others)


def test_a_record_gives_the_kernel_that_was_measured(function: Any, candidates: Candidates):
    ranges, measured = candidates[-1]
    again = BACKEND.schedule_recorded_ranges(function, NVIDIA, ranges)
    assert tvm_ffi.structural_equal(again, measured, map_free_vars=True)


def test_adjacent_ranges_with_equal_schedules_share_code(function: Any, candidates: Candidates):
    ranges, _ = candidates[0]
    one = [replace(part, rule=ranges[-1].rule, parameters=ranges[-1].parameters) for part in ranges]
    assert tvm_ffi.structural_equal(
        BACKEND.schedule_recorded_ranges(function, NVIDIA, one),
        BACKEND.schedule_recorded_ranges(function, NVIDIA, one[-1:]),
        map_free_vars=True,
    )


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (("Fragments", (8, 16)), "the record names a rule that this version does not have: Fragments"),
        (("Products", (8, 16)), "the record has other parameters than Products takes"),
        (("Extrema", (32, 4)), "Extrema has no schedule of this kernel with 32, 4"),
    ],
)
def test_a_schedule_of_another_version_is_refused(function: Any, schedule: tuple[str, tuple[int, ...]], reason: str):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        BACKEND.schedule_recorded_ranges(function, NVIDIA, [RangeSchedule(64, *schedule)])


def test_a_kernel_with_static_dimensions_has_no_ranges(candidates: Candidates):
    static = kernel(lambda x, w: op.matmul(x, w), ((8, 96), F32), ((96, 160), F32), target=NVIDIA)
    assert not list(BACKEND.ranged_kernels(static, NVIDIA, []))
    with pytest.raises(ValueError, match=r"^the record is for ranges of a dynamic dimension"):
        BACKEND.schedule_recorded_ranges(static, NVIDIA, candidates[0][0])


def test_kernels_that_the_rules_for_ranges_do_not_schedule_have_no_candidates():
    function = kernel(lambda x: op.nn.relu(x), ((dim("n"), 512), F32), target=NVIDIA)
    assert not list(BACKEND.ranged_kernels(function, NVIDIA, POINTS))


def test_a_finished_kernel_has_narrow_indices(candidates: Candidates):
    scheduled = candidates[0][1]
    finished = BACKEND.finish_kernel(scheduled)
    types: set[str] = set()
    tvm_ffi.structural_walk(finished.body, (tvm.tirx.For, lambda loop: types.add(str(loop.loop_var.ty.dtype))))
    assert types == {"int32"}
