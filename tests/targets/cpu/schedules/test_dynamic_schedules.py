"""Kernels with dynamic dimensions have the schedules of static ones, and static ones have no dynamic annotations."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import lowered
from tests.targets.cpu.schedules.test_rule import AVX512, KERNELS, conv, norm
from tvmake.targets.cpu.parallel_rows import PARALLEL
from tvmake.targets.cpu.schedules.flatten_rows import flatten_rows
from tvmake.targets.cpu.vectors.partial_tiles import LANES, ROWS, SUMS, TILE, split_partial_tiles
from tvmake.targets.dynamic.name_dimensions import name_dimensions

from tvm import relax, tirx  # isort: skip

op = relax.op
F32 = "float32"
BATCH, LENGTH, HEIGHT, WIDTH = (tirx.Var(name, "int64") for name in ("batch", "length", "height", "width"))
CHANNELS, HEADS = 64, 4


def heads(x: Any) -> Any:
    batch, length, _ = x.ty.shape
    return op.permute_dims(op.reshape(x, (batch, length, HEADS, CHANNELS // HEADS)), [0, 2, 1, 3])


def encoder(x: Any, query: Any, key: Any, value: Any, out: Any, scale: Any, shift: Any, widen: Any, narrow: Any) -> Any:
    """A layer: attention and a feed-forward network, each after a norm, with residuals."""
    emit = relax.BlockBuilder.current().emit
    before = emit(norm(x, scale, shift))
    queries, keys, values = (emit(heads(emit(op.matmul(before, weight)))) for weight in (query, key, value))
    weights = emit(op.nn.softmax(emit(op.matmul(queries, emit(op.permute_dims(keys, [0, 1, 3, 2]))))))
    joined = emit(op.permute_dims(emit(op.matmul(weights, values)), [0, 2, 1, 3]))
    x = emit(op.add(x, emit(op.matmul(emit(op.reshape(joined, x.ty.shape)), out))))
    wide = emit(op.nn.gelu(emit(op.matmul(emit(norm(x, scale, shift)), widen))))
    return op.add(x, op.matmul(wide, narrow))


def encoder_of(*rows: Any) -> Any:
    square, vector = ((CHANNELS, CHANNELS), F32), ((CHANNELS,), F32)
    wide = [((CHANNELS, 4 * CHANNELS), F32), ((4 * CHANNELS, CHANNELS), F32)]
    inputs = [((*rows, CHANNELS), F32), *[square] * 4, vector, vector, *wide]
    return lowered(encoder, *inputs, target=AVX512)


def images(x: Any, first: Any, depthwise: Any, last: Any) -> Any:
    """Convolutions with strides, and pooling."""
    emit = relax.BlockBuilder.current().emit
    x = emit(op.nn.relu(emit(conv(x, first, strides=2))))
    x = emit(op.nn.relu(emit(conv(x, depthwise, groups=32, strides=2))))
    return op.nn.max_pool2d(emit(conv(x, last, padding=0)), (3, 3), (2, 2), 1)


def images_of(batch: Any, height: Any, width: Any) -> Any:
    inputs = [(batch, 3, height, width), (32, 3, 3, 3), (32, 1, 3, 3), (48, 32, 1, 1)]
    return lowered(images, *((shape, F32) for shape in inputs), target=AVX512)


NETWORKS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "encoder": (encoder_of, (BATCH, LENGTH), (4, 256)),
    "images": (images_of, (BATCH, HEIGHT, WIDTH), (4, 256, 256)),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A network with dynamic dimensions, and the same network with static ones."""
    build, dynamic, fixed = NETWORKS[request.param]
    return build(*dynamic), build(*fixed)


def kernels(made: Any) -> dict[str, Any]:
    functions = made.fused.functions_items()
    return {str(name.name_hint): function for name, function in functions if isinstance(function, tirx.PrimFunc)}


def loops(function: Any) -> Iterator[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append))
    yield from found


def blocks(function: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlockRealize, found.append))
    return found


def annotations(function: Any) -> set[str]:
    return {str(name) for loop in loops(function) for name in loop.annotations or {}}


def test_every_kernel_has_a_schedule_with_vectors_on_all_cores(network):
    dynamic, _ = network
    assert dynamic.ruled == kernels(dynamic).keys()
    for name, function in kernels(dynamic).items():
        assert any(loop.kind == tirx.ForKind.VECTORIZED for loop in loops(function)), name
        assert any(loop.kind == tirx.ForKind.PARALLEL or PARALLEL in loop.annotations for loop in loops(function)), name


def test_weights_are_packed_as_for_fixed_dimensions(network):
    """Tiles of columns; their width depends on the rows of a tile."""
    dynamic, fixed = (
        [list(map(int, parameter.ty.shape)) for parameter in made.fused["main"].params[1:]] for made in network
    )
    assert [len(shape) for shape in dynamic] == [len(shape) for shape in fixed]
    assert list(map(math.prod, dynamic)) == list(map(math.prod, fixed))
    assert any(len(shape) > 2 for shape in dynamic)


def test_the_dimensions_of_a_kernel_s_tensors_are_numbers_and_variables(network):
    for function in kernels(network[0]).values():
        assert all(hasattr(parameter.ty, "shape") for parameter in function.params)
        for parameter in function.params:
            assert all(isinstance(length, tirx.IntImm | tvm.ir.Var) for length in parameter.ty.shape)


def test_tiles_of_dynamic_rows_have_code_for_fewer(network):
    tiles = [function for function in kernels(network[0]).values() if TILE in annotations(function)]
    assert tiles
    for function in tiles:
        (tile,) = [loop for loop in loops(function) if TILE in loop.annotations]
        (height,) = {int(loop.extent) for loop in loops(function) if ROWS in loop.annotations}
        lower = int(tile.annotations[TILE])
        assert 0 < lower < height
        divided = split_partial_tiles(tvm.IRModule({"main": function}))["main"]
        assert {lower, height} <= {int(loop.extent) for loop in loops(divided) if isinstance(loop.extent, tirx.IntImm)}
        assert not annotations(divided) & {TILE, ROWS, LANES}


def test_a_dynamic_batch_and_length_are_one_axis_of_rows():
    expression, *weights = KERNELS["product"]
    made = lowered(expression, ((BATCH, LENGTH, 96), F32), weights[1], target=AVX512)
    (kernel,) = kernels(made).values()
    (tile,) = [loop for loop in loops(kernel) if TILE in loop.annotations]
    assert {str(variable.name) for variable in tirx.analysis.undefined_vars(tile.extent)} == {"batch", "length"}


@pytest.mark.parametrize(("window", "tiled"), [(1, {"batch", "height", "width"}), (3, {"width"})])
def test_images_of_any_size_have_rows_of_pixels(window: int, tiled: set[str]):
    """A batch comes first, and is often 1; a 1×1 window moves along all pixels as one row."""
    shapes = [(BATCH, 24, HEIGHT, WIDTH), (48, 24, window, window)]
    made = lowered(
        lambda x, weight: conv(x, weight, padding=window // 2), *((shape, F32) for shape in shapes), target=AVX512
    )
    tiles = [loop for kernel in kernels(made).values() for loop in loops(kernel) if TILE in loop.annotations]
    sizes = [{str(variable.name) for variable in tirx.analysis.undefined_vars(tile.extent)} for tile in tiles]
    assert sizes == [tiled]


def test_tiles_take_rows_from_a_fixed_axis_that_has_enough():
    expression, _, weight = KERNELS["convolution of a batch"]
    made = lowered(expression, ((BATCH, 8, 14, 14), F32), weight, target=AVX512)
    assert not any(TILE in annotations(kernel) for kernel in kernels(made).values())
    assert made.ruled == kernels(made).keys()


def test_no_step_of_a_sum_has_a_condition_on_rows(network):
    for function in kernels(network[0]).values():
        divided = split_partial_tiles(tvm.IRModule({"main": function}))["main"]
        rows = {loop.loop_var for loop in loops(function) if loop.annotations.get(ROWS) == SUMS}
        used = {variable for block in blocks(divided) for variable in tirx.analysis.undefined_vars(block.predicate)}
        assert rows.isdisjoint(used)


def test_fixed_kernels_have_nothing_of_dynamic_ones(network):
    _, fixed = network
    assert name_dimensions(fixed.unscheduled).same_as(fixed.unscheduled)
    for name, function in kernels(fixed).items():
        assert not annotations(function) & {TILE, ROWS, LANES}, name
        assert split_partial_tiles(tvm.IRModule({"main": function}))["main"].same_as(function)
    for function in fixed.unscheduled.functions.values():
        if isinstance(function, tirx.PrimFunc):
            assert flatten_rows(function).same_as(function)


@pytest.mark.parametrize("name", KERNELS)
def test_nor_have_other_fixed_kernels(name: str):
    expression, *inputs = KERNELS[name]
    for function in kernels(lowered(expression, *inputs, target=AVX512)).values():
        assert not annotations(function) & {TILE, ROWS, LANES}
