"""Kernels scheduled by rules give the results of plain loops."""

from typing import Any

import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.targets.cpu.schedules.nets import BASELINE, NATIVE, error, lowered
from tvmake.targets.cpu.schedules.tiled import STREAMS

op = tvm.relax.op
F32 = "float32"
AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
NEAR = 2e-6
"""Sums are added in another order."""


def tensor(*shape: int, dtype: str = F32) -> tuple[tuple[int, ...], str]:
    return shape, dtype


def conv(data: Any, weight: Any, **options: Any) -> Any:
    return op.nn.conv2d(data, weight, **{"padding": 1, **options})


def residual(data: Any, weight: Any, bias: Any) -> Any:
    return op.nn.relu(op.add(op.add(conv(data, weight), bias), data))


def attention(query: Any, key: Any) -> Any:
    return op.nn.softmax(op.matmul(query, op.permute_dims(key, [0, 2, 1])), -1)


def norm(x: Any, scale: Any, shift: Any) -> Any:
    return op.nn.layer_norm(x, scale, shift, axes=[-1])


def gate(data: Any, weight: Any) -> Any:
    return op.multiply(data, op.sigmoid(op.nn.conv2d(op.mean(data, [2, 3], True), weight)))


KERNELS = {
    "convolution": (conv, tensor(1, 16, 14, 14), tensor(32, 16, 3, 3)),
    "convolution to few channels": (conv, tensor(1, 16, 9, 9), tensor(3, 16, 3, 3)),
    "convolution to one channel": (conv, tensor(1, 16, 9, 9), tensor(1, 16, 3, 3)),
    "convolution to a prime of channels": (conv, tensor(1, 8, 13, 11), tensor(37, 8, 3, 3)),
    "convolution to a prime of channels, then another": (
        lambda x, w, b, v: conv(op.nn.relu(op.add(conv(x, w), b)), v),
        tensor(2, 16, 17, 5), tensor(21, 16, 3, 3), tensor(1, 21, 1, 1), tensor(19, 21, 1, 1)
    ),
    "convolution to a prime of channels, half precision": (
        conv, tensor(1, 2, 13, 11, dtype="float16"), tensor(37, 2, 3, 3, dtype="float16")
    ),
    "convolution to a prime of rows": (conv, tensor(1, 24, 17, 19), tensor(32, 24, 3, 3)),
    "convolution to a prime of rows, grouped": (
        lambda x, w: conv(x, w, groups=4), tensor(1, 32, 19, 17), tensor(64, 8, 3, 3)
    ),
    "convolution to a prime of rows, residual": (
        residual, tensor(2, 32, 19, 19), tensor(32, 32, 3, 3), tensor(1, 32, 1, 1)
    ),
    "convolution to a prime of rows, half precision": (
        conv, tensor(1, 2, 17, 17, dtype="float16"), tensor(32, 2, 3, 3, dtype="float16")
    ),
    "convolution from images": (
        lambda x, w: conv(x, w, strides=2, padding=3), tensor(1, 3, 31, 33), tensor(64, 3, 7, 7)
    ),
    "convolution, grouped": (lambda x, w: conv(x, w, groups=4), tensor(1, 16, 12, 12), tensor(24, 4, 3, 3)),
    "convolution, grouped by eight": (lambda x, w: conv(x, w, groups=3), tensor(1, 12, 9, 9), tensor(24, 4, 3, 3)),
    "convolution, in pairs": (lambda x, w: conv(x, w, groups=16), tensor(1, 16, 9, 9), tensor(32, 1, 3, 3)),
    "convolution, depthwise": (lambda x, w: conv(x, w, groups=48), tensor(1, 48, 28, 28), tensor(48, 1, 3, 3)),
    "convolution, depthwise, strided": (
        lambda x, w: conv(x, w, groups=20, strides=2), tensor(2, 20, 15, 15), tensor(20, 1, 3, 3)
    ),
    "convolution, depthwise, of a batch": (
        lambda x, w: conv(x, w, groups=16), tensor(3, 16, 14, 14), tensor(16, 1, 3, 3)
    ),
    "convolution, dilated": (lambda x, w: conv(x, w, dilation=2, padding=2), tensor(1, 8, 10, 10), tensor(8, 8, 3, 3)),
    "convolution of a batch": (conv, tensor(3, 8, 7, 7), tensor(16, 8, 3, 3)),
    "convolution, residual": (residual, tensor(1, 32, 14, 14), tensor(32, 32, 3, 3), tensor(1, 32, 1, 1)),
    "convolution, transposed": (
        lambda x, w: op.nn.conv2d_transpose(x, w, strides=2, padding=1), tensor(1, 8, 7, 7), tensor(8, 12, 4, 4)
    ),
    "convolution of sequences": (lambda x, w: op.nn.conv1d(x, w, padding=1), tensor(1, 8, 50), tensor(24, 8, 3)),
    "convolution of volumes": (lambda x, w: op.nn.conv3d(x, w), tensor(1, 4, 6, 7, 8), tensor(8, 4, 3, 3, 3)),
    "product": (op.matmul, tensor(64, 96), tensor(96, 128)),
    "product to a prime of columns": (
        lambda x, w, b: op.nn.gelu(op.add(op.matmul(x, op.permute_dims(w)), b)),
        tensor(2, 50, 24), tensor(53, 24), tensor(53)
    ),
    "product of one axis to a prime of columns": (op.matmul, tensor(24), tensor(24, 53)),
    "product to few columns": (op.matmul, tensor(1, 4096), tensor(4096, 128)),
    "product of a vector": (op.matmul, tensor(1, 300), tensor(300, 1000)),
    "product with awkward extents": (op.matmul, tensor(197, 61), tensor(61, 193)),
    "product with transposed weights": (
        lambda x, w: op.matmul(x, op.permute_dims(w)), tensor(17, 40), tensor(257, 40)
    ),
    "product of batches": (attention, tensor(3, 197, 64), tensor(3, 197, 64)),
    "product with itself": (lambda x: op.matmul(x, x), tensor(37, 37)),
    "product of integers": (op.matmul, tensor(20, 30, dtype="int32"), tensor(30, 40, dtype="int32")),
    "product in half precision": (op.matmul, tensor(20, 32, dtype="float16"), tensor(32, 48, dtype="float16")),
    "softmax": (op.nn.softmax, tensor(3, 50, 197)),
    "softmax of windows": (op.nn.softmax, tensor(8, 2, 49, 49)),
    "softmax of few": (op.nn.softmax, tensor(2, 3, 5)),
    "softmax of long rows": (op.nn.softmax, tensor(3, 257, 1031)),
    "softmax along another axis": (lambda x: op.nn.softmax(x, 1), tensor(2, 40, 17)),
    "log softmax": (lambda x: op.nn.log_softmax(x, -1), tensor(32, 100)),
    "layer norm": (norm, tensor(1, 197, 192), tensor(192), tensor(192)),
    "layer norm of a prime of rows": (norm, tensor(1, 197, 384), tensor(384), tensor(384)),
    "layer norm of few": (norm, tensor(1, 5, 7), tensor(7), tensor(7)),
    "gate": (gate, tensor(1, 24, 14, 14), tensor(24, 24, 1, 1)),
    "mean": (lambda x: op.mean(x, [2, 3]), tensor(1, 40, 13, 13)),
    "sum of all": (op.sum, tensor(4, 33, 7)),
    "maximum": (lambda x: op.max(x, [1]), tensor(9, 1001)),
    "largest": (lambda x: op.argmax(x, 1), tensor(9, 101)),
    "pool": (lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), 1), tensor(1, 24, 29, 29)),
    "pool of averages": (lambda x: op.nn.avg_pool2d(x, (3, 3), (1, 1), 1), tensor(1, 24, 12, 12)),
    "pool to a size": (lambda x: op.nn.adaptive_avg_pool2d(x, (3, 5)), tensor(1, 17, 13, 11)),
    "resize": (lambda x: op.image.resize2d(x, (14, 18), layout="NCHW"), tensor(1, 12, 7, 9)),
    "concatenation": (lambda x: op.concat([op.nn.relu(x), x], 1), tensor(1, 24, 9, 9)),
    "sums so far": (lambda x: op.cumsum(x, 1), tensor(4, 33)),
    "one number": (lambda x: op.add(x, x), ((), F32)),
    "gelu": (op.nn.gelu, tensor(19, 77)),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_scheduled_kernel_computes_what_plain_loops_do(name: str):
    expression, *inputs = KERNELS[name]
    assert error(expression, *inputs) <= (2e-3 if inputs[0][1] == "float16" else NEAR)


@pytest.mark.parametrize("name", ["convolution", "convolution, depthwise", "product with awkward extents", "softmax"])
def test_so_does_one_for_the_smallest_vectors(name: str):
    expression, *inputs = KERNELS[name]
    assert error(expression, *inputs, target=BASELINE) <= NEAR


SMALL = st.integers(1, 21)


@settings(max_examples=4, deadline=None)
@given(
    channels=SMALL, filters=st.integers(1, 70), height=SMALL, width=SMALL, window=st.sampled_from([1, 2, 3, 5]),
    stride=st.integers(1, 3),
)  # fmt: skip
def test_convolutions_of_any_extents(channels: int, filters: int, height: int, width: int, window: int, stride: int):
    def expression(data: Any, weight: Any) -> Any:
        return op.nn.relu(conv(data, weight, strides=stride, padding=window // 2))

    assert error(expression, tensor(1, channels, height, width), tensor(filters, channels, window, window)) <= NEAR


@settings(max_examples=4, deadline=None)
@given(batch=st.integers(1, 3), rows=st.integers(1, 70), length=st.integers(1, 40), columns=st.integers(1, 70))
def test_matmuls_of_any_extents(batch: int, rows: int, length: int, columns: int):
    assert error(op.matmul, tensor(batch, rows, length), tensor(batch, length, columns)) <= NEAR


@settings(max_examples=4, deadline=None)
@given(rows=st.integers(1, 9), length=st.integers(1, 70))
def test_rows_of_any_length(rows: int, length: int):
    assert error(op.nn.softmax, tensor(rows, length)) <= NEAR
    assert error(op.add, tensor(rows, length), tensor(rows, 1)) <= NEAR


def lanes(made: Any) -> set[int]:
    """The lengths of vectors in a module's scheduled kernels."""
    found: set[int] = set()

    def note(loop: Any) -> None:
        if loop.kind == tvm.tirx.ForKind.VECTORIZED:
            found.add(int(loop.extent))

    for name, function in made.final.functions_items():
        if str(name.name_hint) in made.ruled:
            tvm_ffi.structural_walk(function.body, (tvm.tirx.For, note))
    return found


def test_vectors_of_a_grouped_convolution_stay_within_its_groups():
    def grouped(data: Any, weight: Any) -> Any:
        return op.nn.conv2d(data, weight, groups=4, data_layout="NHWC", kernel_layout="OHWI")

    assert max(lanes(lowered(grouped, tensor(1, 9, 9, 32), tensor(32, 3, 3, 8), target=AVX512))) == 8


def test_rows_of_odd_lengths_are_computed_in_whole_vectors():
    assert lanes(lowered(op.nn.softmax, tensor(64, 197), target=AVX512)) == {16}
    assert lanes(lowered(op.nn.softmax, tensor(64, 24), target=AVX512)) == {8}


@pytest.mark.parametrize("channels", [21, 37, 255])
def test_odd_numbers_of_channels_are_computed_in_whole_vectors(channels: int):
    def head(data: Any, weight: Any) -> Any:
        return op.nn.conv2d(data, weight, data_layout="NHWC", kernel_layout="OHWI")

    assert max(lanes(lowered(head, tensor(1, 13, 13, 32), tensor(channels, 1, 1, 32), target=AVX512))) == 16


@pytest.mark.parametrize("name", ["depthwise", "pool"])
def test_padding_is_computed_where_it_is_used(name: str):
    def depthwise(data: Any, weight: Any) -> Any:
        return op.nn.conv2d(
            data, weight, groups=48, padding=1, strides=2, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC"
        )

    def pool(data: Any) -> Any:
        return op.nn.max_pool2d(data, (3, 3), (2, 2), 1, layout="NHWC")

    inputs = [tensor(1, 56, 56, 48), tensor(48, 3, 3, 1)]
    made = lowered(depthwise, *inputs) if name == "depthwise" else lowered(pool, inputs[0])
    (kernel,) = [
        function for variable, function in made.final.functions_items() if str(variable.name_hint) in made.ruled
    ]
    parallel: list[Any] = []

    def note(loop: Any) -> None:
        if loop.kind == tvm.tirx.ForKind.PARALLEL:
            parallel.append(loop)

    tvm_ffi.structural_walk(kernel.body, (tvm.tirx.For, note))
    assert len(parallel) == 1


def parallel_steps(made: Any) -> list[int]:
    """The numbers of steps of the parallel loops in a module's kernels."""
    found: list[int] = []

    def note(loop: Any) -> None:
        if loop.kind == tvm.tirx.ForKind.PARALLEL:
            found.append(int(loop.extent))

    for _, function in made.fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.tirx.For, note))
    return found


def test_padding_is_computed_for_a_band_of_one_image():
    def depthwise(data: Any, weight: Any) -> Any:
        return op.nn.conv2d(
            data, weight, groups=48, padding=1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC"
        )

    (alone,) = parallel_steps(lowered(depthwise, tensor(1, 56, 56, 48), tensor(48, 3, 3, 1)))
    assert parallel_steps(lowered(depthwise, tensor(8, 56, 56, 48), tensor(48, 3, 3, 1))) == [8 * alone]


def test_few_results_of_long_sums_are_shared_out():
    (steps,) = parallel_steps(lowered(op.matmul, tensor(1, 9216), tensor(9216, 128)))
    assert steps >= 4


@pytest.mark.parametrize(
    "name", ["softmax", "softmax of windows", "log softmax", "layer norm", "layer norm of a prime of rows"]
)
def test_rows_go_through_all_steps_at_once(name: str):
    expression, *inputs = KERNELS[name]
    made = lowered(expression, *inputs)
    (kernel,) = (
        function for variable, function in made.final.functions_items() if str(variable.name_hint) in made.ruled
    )
    blocks = tvm.s_tir.Schedule(kernel)
    root = blocks.get_sblock("root")
    assert len({str(blocks.get(blocks.get_loops(block)[0]).loop_var) for block in blocks.get_child_blocks(root)}) == 1


def last_row(made: Any, share: float) -> int:
    """The last row, by the second axis, that the first share of a kernel's parallel steps computes."""
    (kernel,) = (
        function for variable, function in made.final.functions_items() if str(variable.name_hint) in made.ruled
    )
    ranges = tvm.sym.Analyzer()
    rows: list[int] = []

    def note(node: Any) -> None:
        if isinstance(node, tvm.tirx.For):
            is_parallel = node.kind == tvm.tirx.ForKind.PARALLEL
            ranges.bind(node.loop_var, tvm.ir.Range(0, int(int(node.extent) * (share if is_parallel else 1))))
        elif len(node.iter_values) > 1:
            # The last tile may lack rows, which a condition skips.
            last = int(node.block.iter_vars[1].dom.extent) - 1
            rows.append(min(last, ranges.const_int_bound(node.iter_values[1]).max_value))

    tvm_ffi.structural_walk(kernel.body, ((tvm.tirx.For, tvm.s_tir.SBlockRealize), note), order="pre")
    return max(rows)


def pointwise(data: Any, weight: Any) -> Any:
    return op.nn.conv2d(data, weight, data_layout="NHWC", kernel_layout="OHWI")


def test_threads_have_separate_rows_if_weights_are_small():
    small = lowered(pointwise, tensor(1, 14, 14, 64), tensor(384, 1, 1, 64), target=AVX512)
    assert last_row(small, 0.5) == 6
    large = lowered(pointwise, tensor(1, 14, 14, 512), tensor(512, 1, 1, 512), target=AVX512)
    assert last_row(large, 0.5) == 13


def vectors(made: Any) -> int:
    """Number of vectorised loops in a module's kernels."""
    found: list[Any] = []

    def note(loop: Any) -> None:
        if loop.kind == tvm.tirx.ForKind.VECTORIZED:
            found.append(loop)

    for _, function in made.fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.tirx.For, note))
    return len(found)


@pytest.mark.parametrize("name", ["convolution", "convolution, depthwise", "product", "layer norm", "pool", "gelu"])
def test_kernels_compute_in_vectors(name: str):
    expression, *inputs = KERNELS[name]
    made = lowered(expression, *inputs)
    assert vectors(made) > 0
    assert made.ruled == {str(n.name_hint) for n, f in made.fused.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}


def sum_steps(made: Any) -> set[int]:
    """The numbers of steps of the innermost serial loops that are not vectors."""
    found: set[int] = set()

    def note(loop: Any) -> None:
        if loop.kind == tvm.tirx.ForKind.SERIAL and int(loop.extent) > 1:
            found.add(int(loop.extent))

    for _, function in made.fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.tirx.For, note))
    return found


def test_a_row_reads_its_weights_in_several_sequences():
    assert 576 // STREAMS in sum_steps(lowered(op.matmul, tensor(1, 576), tensor(576, 1536)))
    assert error(op.matmul, tensor(1, 576), tensor(576, 1536)) <= NEAR


@pytest.mark.parametrize(("rows", "length"), [(8, 576), (1, 577)])
def test_other_sums_are_added_in_order(rows: int, length: int):
    assert length in sum_steps(lowered(op.matmul, tensor(rows, length), tensor(length, 1536)))


def test_weights_are_packed_when_the_package_is_built():
    made = lowered(conv, tensor(1, 16, 14, 14), tensor(32, 16, 3, 3))
    (packing,) = made.packings[-1:]
    assert packing.results[0] in {str(parameter.name) for parameter in made.fused["main"].params}
    assert "x1" not in {str(parameter.name) for parameter in made.fused["main"].params}


def test_so_are_those_of_a_grouped_convolution():
    def grouped(data: Any, weight: Any) -> Any:
        return op.nn.conv2d(data, weight, groups=4, data_layout="NHWC", kernel_layout="OHWI")

    made = lowered(grouped, tensor(1, 9, 9, 64), tensor(64, 3, 3, 16), target=AVX512)
    (weight,) = made.fused["main"].params[1:]
    assert [int(extent) for extent in weight.ty.shape] == [4, 3, 3, 16, 16]


def test_the_same_kernel_gets_the_same_schedule():
    expression, *inputs = KERNELS["convolution"]
    first, second = (lowered(expression, *inputs).fused for _ in range(2))
    assert tvm.ir.save_json(first) == tvm.ir.save_json(second)


def test_a_kernel_that_is_refused_stays_plain():
    expression, *inputs = KERNELS["product"]
    (name,) = lowered(expression, *inputs).ruled
    from tests.tune.graphs import graph
    from tvmake.codegen.lowering import lower
    from tvmake.codegen.options import PassOptions

    made = lower(graph(expression, *inputs), NATIVE, [], PassOptions(), 1, refused=[name])
    assert made.ruled == frozenset()
    assert vectors(made) == 0
