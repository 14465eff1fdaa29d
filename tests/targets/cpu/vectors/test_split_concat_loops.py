"""Concatenated rows are computed part by part, each in whole vectors, without conditions per value."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import error, lowered
from tests.unoptimised import compile_unoptimised
from tvmake.ir.expressions import is_call
from tvmake.targets.cpu.vectors.split_concat_loops import CONDITIONALS, MOST, SEGMENTS, split_concat_loops

from tvm import s_tir, te, tirx  # isort: skip

op = tvm.relax.op


def rows(first: int, second: int, marks: bool = True) -> "tvm.IRModule":
    """A kernel that concatenates rows of two tensors."""
    x = te.placeholder((3, first), name="x", dtype="float32")
    y = te.placeholder((3, second), name="y", dtype="float32")
    z = te.compute(
        (3, first + second), lambda i, j: tirx.if_then_else(j < first, x[i, j], y[i, j - first]) * 2.0, name="z"
    )
    schedule = s_tir.Schedule(te.create_prim_func([x, y, z]))
    if marks:
        schedule.annotate(schedule.get_loops(schedule.get_sblock("z"))[-1], SEGMENTS, [first, first + second, 8])
    return schedule.mod


def conditions(module: "tvm.IRModule") -> int:
    """Number of conditions in a kernel."""
    found: list[Any] = []

    def note(call: Any) -> None:
        if is_call(call, *CONDITIONALS):
            found.append(call)

    tvm_ffi.structural_walk(module["main"].body, (tvm.ir.Call, note))
    return len(found)


@pytest.mark.parametrize("second", [1, 5, 8, 13, 16, 31])
@pytest.mark.parametrize("first", [1, 7, 8, 24])
def test_parts_of_any_length_are_computed_without_conditions(first: int, second: int):
    assert conditions(rows(first, second)) == 1
    divided = split_concat_loops(rows(first, second))
    assert conditions(divided) == 0
    x, y = (np.random.default_rng(0).standard_normal((3, length)).astype("float32") for length in (first, second))
    result = tvm.runtime.tensor(np.zeros((3, first + second), "float32"))
    compile_unoptimised(tirx.transform.ConvertSSA()(divided))["main"](*map(tvm.runtime.tensor, (x, y)), result)
    assert np.array_equal(result.numpy(), np.concatenate([x, y], 1) * 2)


def test_other_kernels_stay_unchanged():
    before = rows(8, 8, marks=False)
    assert split_concat_loops(before)["main"].same_as(before["main"])


def parts(made: Any) -> list[int]:
    """The ends of the parts that rules found in a network's kernels."""
    found: list[int] = []

    def note(loop: Any) -> None:
        if SEGMENTS in (loop.annotations or {}):
            found.extend(map(int, loop.annotations[SEGMENTS][:-1]))

    for _, function in made.final.functions_items():
        if isinstance(function, tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tirx.For, note))
    return found


@pytest.mark.parametrize("count", [2, 3, 5, MOST + 1])
def test_concatenations_compute_the_same(count: int):
    inputs = [((2, 5, 9 + index), "float32") for index in range(count)]

    def joined(*tensors: Any) -> Any:
        return op.nn.relu(op.concat(list(tensors), -1))

    assert error(joined, *inputs) == 0
    assert len(parts(lowered(joined, *inputs))) == (count if count <= MOST else 0)


def test_conditions_on_other_axes_do_not_split():
    assert parts(lowered(lambda x, y: op.concat([x, y], 0), ((2, 24), "float32"), ((3, 24), "float32"))) == []
