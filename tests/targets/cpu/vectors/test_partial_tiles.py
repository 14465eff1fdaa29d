"""The last tile and the last vector of a dynamic dimension compute the remaining values, and nothing beyond."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.unoptimised import compile_unoptimised
from tvmake.targets.cpu.vectors.partial_tiles import (
    ADDED,
    LANES,
    REPEATED,
    RESULTS,
    ROWS,
    SINGLE,
    SUMS,
    TILE,
    split_partial_tiles,
)

from tvm import s_tir, te, tirx  # isort: skip

WIDTH, HEIGHT = 8, 6
UNTOUCHED = np.float32(-1)


def length() -> Any:
    return tirx.Var("length", "int64")


def doubled(kind: int | None, is_own: bool = False) -> "tvm.IRModule":
    """A kernel that doubles rows of a dynamic length in vectors.

    Args:
        kind: how excess lanes are handled; None for a loop without an annotation.
        is_own: whether vectors write an internal buffer, which is then copied.
    """
    n = length()
    x = te.placeholder((3, n), name="x", dtype="float32")
    y = te.compute((3, n), lambda i, j: x[i, j] * 2.0, name="y")
    outputs = [te.compute((3, n), lambda i, j: y[i, j], name="z")] if is_own else [y]
    schedule = s_tir.Schedule(te.create_prim_func([x, *outputs]))
    _, along = schedule.get_loops(schedule.get_sblock("y"))
    _, lanes = schedule.split(along, [None, WIDTH])
    schedule.vectorize(lanes)
    if kind is not None:
        schedule.annotate(lanes, LANES, ann_val=kind)
    return schedule.mod


def summed() -> "tvm.IRModule":
    """A kernel that sums rows of a dynamic length in vectors of partial sums."""
    n = length()
    x = te.placeholder((3, n), name="x", dtype="float32")
    step = te.reduce_axis((0, n), "step")
    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute((3,), lambda i: te.sum(x[i, step], step), name="y")]))
    block = schedule.get_sblock("y")
    row, along = schedule.get_loops(block)
    _, lanes = schedule.split(along, [None, WIDTH])
    partial = schedule.rfactor(lanes, factor_axis=0)
    row, *_ = schedule.get_loops(partial)
    schedule.reverse_compute_at(block, row, preserve_unit_loops=True)
    *_, lanes = schedule.get_loops(partial)
    schedule.vectorize(lanes)
    schedule.annotate(lanes, LANES, ann_val=ADDED)
    schedule.decompose_reduction(partial, schedule.get_loops(partial)[1])
    return schedule.mod


def multiplied(lower: int, multiple: int = 1) -> "tvm.IRModule":
    """A matmul with a dynamic number of rows in tiles, with code for a lower height, too.

    Args:
        multiple: a number that the rows are a multiple of.
    """
    n, inner, outer = length(), tirx.const(5, "int64"), tirx.const(8, "int64")
    x, weight = te.placeholder((n, multiple, inner), name="x"), te.placeholder((inner, outer), name="w")
    step = te.reduce_axis((tirx.const(0, "int64"), inner), "step")
    y = te.compute(
        (n * multiple, outer),
        lambda i, j: te.sum(x[i // multiple, i % multiple, step] * weight[step, j], step),
        name="y",
    )
    schedule = s_tir.Schedule(te.create_prim_func([x, weight, y]))
    block = schedule.get_sblock("y")
    results = schedule.cache_write(block, 0, "global")
    rows, columns, steps = schedule.get_loops(block)
    tiles, rows = schedule.split(rows, [None, HEIGHT])
    schedule.reorder(tiles, steps, rows, columns)
    schedule.reverse_compute_at(results, tiles, preserve_unit_loops=True)
    layout = tirx.IndexMap.from_func(lambda i, j: [i // HEIGHT, i % HEIGHT, j], ndim=2, index_dtype="int64")
    schedule.transform_layout(block, ("write", 0), layout, assume_injective_transform=True)
    zeros = schedule.decompose_reduction(block, steps)
    schedule.annotate(tiles, TILE, ann_val=lower)
    for part, kind in ((zeros, SUMS), (block, SUMS), (results, RESULTS)):
        schedule.annotate(schedule.get_loops(part)[-2], ROWS, ann_val=kind)
    return schedule.mod


def compiled(module: "tvm.IRModule") -> Callable[..., np.ndarray]:
    """A kernel that writes its last argument, surrounded by memory that must stay unchanged."""
    passes = tvm.transform.Sequential([split_partial_tiles, tirx.transform.ConvertSSA()])
    code = compile_unoptimised(passes(module))["main"]

    def run(*arguments: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        memory = tvm.runtime.tensor(np.full(int(np.prod(shape)) + 64, UNTOUCHED))
        result = memory._create_view(shape)
        code(*map(tvm.runtime.tensor, arguments), result)
        assert np.all(memory.numpy()[int(np.prod(shape)) :] == UNTOUCHED)
        return result.numpy()

    return run


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


@pytest.mark.parametrize("is_own", [False, True], ids=["an argument", "a buffer of the kernel's own"])
@pytest.mark.parametrize("kind", [SINGLE, REPEATED])
def test_vectors_compute_rows_of_any_length(kind: int, is_own: bool):
    run = compiled(doubled(kind, is_own))
    for count in range(1, 35):
        x = numbers(3, count)
        np.testing.assert_array_equal(run(x, shape=x.shape), x * 2)


def test_vectors_of_partial_sums_add_rows_of_any_length():
    run = compiled(summed())
    for count in range(1, 35):
        x = numbers(3, count)
        np.testing.assert_array_equal(run(x, shape=(3,)), x.sum(1))


@pytest.mark.parametrize("lower", [1, 2, 3, 4])
def test_tiles_compute_any_number_of_rows(lower: int):
    run = compiled(multiplied(lower))
    weight = numbers(5, 8)
    for count in range(1, 3 * HEIGHT + 2):
        x = numbers(count, 5)
        np.testing.assert_array_equal(run(x[:, None], weight, shape=(count, 8)), x @ weight)


def test_tiles_without_remaining_rows_have_code_for_whole_tiles_alone():
    kernel = multiplied(2, multiple=HEIGHT)
    extents = [int(loop.extent) for loop in loops(split_partial_tiles(kernel)) if isinstance(loop.extent, tirx.IntImm)]
    assert HEIGHT in extents and 2 not in extents
    x, weight = numbers(3 * HEIGHT, 5), numbers(5, 8)
    result = compiled(kernel)(x.reshape(3, HEIGHT, 5), weight, shape=(3 * HEIGHT, 8))
    np.testing.assert_array_equal(result, x @ weight)


def loops(module: "tvm.IRModule") -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(module["main"].body, (tirx.For, found.append))
    return found


def vectors(module: "tvm.IRModule") -> list[bool]:
    """For each vectorised loop, whether it has a condition for each lane."""
    return [
        not (isinstance(loop.body.predicate, tirx.IntImm) and int(loop.body.predicate) == 1)
        for loop in loops(module)
        if loop.kind == tirx.ForKind.VECTORIZED
    ]


def test_vectors_have_no_condition():
    assert vectors(doubled(SINGLE)) == [True]
    assert vectors(split_partial_tiles(doubled(SINGLE))) == [False]


def test_the_last_vector_begins_earlier():
    assert vectors(split_partial_tiles(doubled(REPEATED))) == [False]
    assert "T.max" in split_partial_tiles(doubled(REPEATED)).script()


def test_no_value_of_a_kernel_s_own_buffer_is_computed_twice():
    """TVM may store a result over its input."""
    assert "T.max" not in split_partial_tiles(doubled(REPEATED, is_own=True)).script()


def test_a_tile_has_code_for_both_heights():
    before, after = multiplied(2), split_partial_tiles(multiplied(2))
    assert [int(loop.extent) for loop in loops(before) if ROWS in loop.annotations] == [HEIGHT] * 3
    extents = [int(loop.extent) for loop in loops(after) if isinstance(loop.extent, tirx.IntImm)]
    assert {2, HEIGHT} <= {*extents}
    assert not any(loop.annotations for loop in loops(after))


def test_other_kernels_stay_unchanged():
    before = doubled(None)
    assert split_partial_tiles(before)["main"].same_as(before["main"])
