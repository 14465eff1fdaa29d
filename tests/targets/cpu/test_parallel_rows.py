"""Merged loops are parallel if they are annotated."""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.parallel_rows import PARALLEL, parallelize_rows

from tvm import s_tir, te, tirx  # isort: skip


def merged(marks: bool) -> "tvm.IRModule":
    """A kernel of two steps, merged into one loop over rows."""
    x = te.placeholder((8, 4), name="x", dtype="float32")
    y = te.compute((8, 4), lambda i, j: x[i, j] * 2.0, name="y")
    z = te.compute((8, 4), lambda i, j: y[i, j] + 1.0, name="z")
    schedule = s_tir.Schedule(te.create_prim_func([x, z]))
    rows = schedule.merge(*(schedule.get_loops(schedule.get_sblock(name))[0] for name in ("y", "z")))
    if marks:
        schedule.annotate(rows, PARALLEL, ann_val=True)
    return schedule.mod


def parallel(module: "tvm.IRModule") -> list[int]:
    """The extents of parallel loops."""
    found: list[int] = []

    def note(loop: Any) -> None:
        if loop.kind == tirx.ForKind.PARALLEL:
            found.append(int(loop.extent))

    tvm_ffi.structural_walk(module["main"].body, (tirx.For, note))
    return found


def test_a_marked_loop_becomes_parallel():
    assert parallel(merged(marks=True)) == []
    assert parallel(parallelize_rows(merged(marks=True))) == [8]


def test_other_kernels_stay_unchanged():
    before = merged(marks=False)
    assert parallelize_rows(before)["main"].same_as(before["main"])
