"""Rows with an incomplete last vector are computed in whole vectors and single values."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.unoptimised import compile_unoptimised
from tvmake.targets.cpu.vectors.incomplete_vectors import BEYOND, LENGTH, VALID, split_incomplete_vectors

from tvm import s_tir, te, tirx  # isort: skip


def scheduled(length: int, lanes: int, marks: bool = True) -> "tvm.IRModule":
    """A kernel that doubles rows in vectors, the last of which is incomplete."""
    x = te.placeholder((3, length), name="x", dtype="float32")
    y = te.compute((3, length), lambda i, j: x[i, j] * 2.0, name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    _, along = schedule.get_loops(schedule.get_sblock("y"))
    vectors, within = schedule.split(along, [None, lanes])
    schedule.vectorize(within)
    if marks:
        schedule.annotate(vectors, LENGTH, length)
    return schedule.mod


def vectors(module: "tvm.IRModule") -> list[tuple[int, bool]]:
    """For each vectorised loop: its number of lanes, and whether it has a condition for each lane."""
    found: list[tuple[int, bool]] = []

    def note(loop: Any) -> None:
        if loop.kind == tirx.ForKind.VECTORIZED:
            predicate = loop.body.predicate
            found.append((int(loop.extent), not (isinstance(predicate, tirx.IntImm) and int(predicate) == 1)))

    tvm_ffi.structural_walk(module["main"].body, (tirx.For, note))
    return found


def test_whole_vectors_are_computed_without_a_condition():
    before = scheduled(21, 8)
    assert vectors(before) == [(8, True)]
    assert vectors(split_incomplete_vectors(before)) == [(8, False)]


def test_all_values_are_computed():
    module = tirx.transform.ConvertSSA()(split_incomplete_vectors(scheduled(21, 8)))
    given = np.arange(63, dtype="float32").reshape(3, 21)
    result = tvm.runtime.tensor(np.zeros_like(given))
    compile_unoptimised(module)["main"](tvm.runtime.tensor(given), result)
    assert np.array_equal(result.numpy(), given * 2)


def tiled(length: int, count: int, lanes: int, mark: str) -> "tvm.IRModule":
    """A kernel that doubles rows in tiles of several vectors, the last of which is incomplete."""
    x = te.placeholder((3, length), name="x", dtype="float32")
    y = te.compute((3, length), lambda i, j: x[i, j] * 2.0, name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    _, along = schedule.get_loops(schedule.get_sblock("y"))
    _, vectors, within = schedule.split(along, [None, count, lanes])
    schedule.unroll(vectors)
    schedule.vectorize(within)
    if mark == VALID:
        schedule.annotate(vectors, VALID, length % (count * lanes))
    else:
        schedule.annotate(within, BEYOND, ann_val=True)
    return schedule.mod


@pytest.mark.parametrize("length", [1, 7, 8, 16, 21, 45, 47, 61, 69])
def test_tiles_compute_all_values(length: int):
    module = tirx.transform.ConvertSSA()(split_incomplete_vectors(tiled(length, 3, 8, VALID)))
    assert all(not asks for _, asks in vectors(module))
    given = np.arange(3 * length, dtype="float32").reshape(3, length)
    result = tvm.runtime.tensor(np.full_like(given, -1))
    compile_unoptimised(module)["main"](tvm.runtime.tensor(given), result)
    assert np.array_equal(result.numpy(), given * 2)


def test_vectors_that_may_go_beyond_the_last_value_have_no_condition():
    assert vectors(tiled(21, 3, 8, BEYOND)) == [(8, True)]
    assert vectors(split_incomplete_vectors(tiled(21, 3, 8, BEYOND))) == [(8, False)]


def test_other_kernels_stay_unchanged():
    before = scheduled(21, 8, marks=False)
    assert split_incomplete_vectors(before)["main"].same_as(before["main"])
