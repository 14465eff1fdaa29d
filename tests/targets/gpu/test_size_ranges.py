"""Kernels with dynamic dimensions have code for ranges of sizes, each with the tile for such sizes."""

from typing import Any

import pytest
import tvm
import tvm_ffi

from tests.targets.adreno_texture.nets import conv, op, target, tensor
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.ir.bounds import with_bounds
from tvmake.targets.gpu.bound_rule import is_bound
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.ranges.size_ranges import MOST_RANGES, schedule_ranges
from tvmake.targets.gpu.schedule_checks import THREAD

BATCH = tvm.tirx.Var("batch", "int64")
IMAGES, WEIGHT = ([BATCH, 64, 28, 28], "float32"), tensor(128, 64, 3, 3)
NVIDIA = target("opencl-nvidia")


def kernel(expression: Any = conv, *inputs: Any, bounds: tuple[int, int | None] = (1, None)) -> Any:
    """The only kernel of a network with a dynamic batch."""
    module = with_bounds(graph(expression, *(inputs or (IMAGES, WEIGHT))), {"batch": bounds})
    (function,) = [
        function
        for function in lower(module, NVIDIA, [], PassOptions(), 1).fused.functions.values()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]
    return function


def launches(function: Any) -> list[list[str]]:
    """For each of a kernel's launches, the extents of the loops over threads, from outside."""
    found: list[list[str]] = []

    def enter(loop: Any) -> Any:
        if loop.kind != THREAD:
            return None
        extents: list[str] = []
        tvm_ffi.structural_walk(
            loop,
            (tvm.tirx.For, lambda inner: extents.append(str(inner.extent)) if inner.kind == THREAD else None),
            order="pre",
        )
        found.append(extents)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(function.body, (tvm.tirx.For, enter), order="pre")
    return found


@pytest.fixture(scope="module")
def convolution() -> Any:
    return kernel()


def test_a_convolution_has_other_tiles_for_one_image_than_for_many(convolution: Any):
    sizes = [extents[1] for extents in launches(convolution)]
    assert is_bound(convolution)
    assert 1 < len(sizes) <= MOST_RANGES
    assert len(set(map(tuple, launches(convolution)))) == len(sizes)


def test_the_number_of_work_groups_depends_on_the_batch(convolution: Any):
    assert all("batch" in extents[0] for extents in launches(convolution))


def test_bounds_of_the_batch_limit_the_sizes(convolution: Any):
    assert len(launches(kernel(bounds=(1, 1)))) == 1
    assert len(launches(kernel(bounds=(1, 4)))) < len(launches(convolution))


def test_a_kernel_with_static_dimensions_has_no_ranges():
    module = graph(conv, tensor(1, 8, 14, 14), WEIGHT[:1] and tensor(16, 8, 3, 3))
    fused = lower(module, NVIDIA, [], PassOptions(), 1).unscheduled
    (function,) = [function for function in fused.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    assert schedule_ranges(function, NVIDIA, [Products()], {}) is None


def test_rows_of_a_batch_and_a_length_are_one_axis():
    length = tvm.tirx.Var("length", "int64")
    rows = kernel(op.matmul, ([BATCH, length, 64], "float32"), tensor(64, 96))
    assert all("batch * length" in extents[0].replace("length * batch", "batch * length") for extents in launches(rows))
