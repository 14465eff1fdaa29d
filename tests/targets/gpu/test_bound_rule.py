"""Kernels run entirely on the device, even if TVM's schedule rules leave a part to the host."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, conv, executable, lowered, op, target, tensor
from tvmake.native.backend import opencl_library
from tvmake.targets.adreno_buffer.backend import FuseEpilogue
from tvmake.targets.gpu.bound_rule import BoundRule, EachBlock, Launching
from tvmake.targets.gpu.schedule_checks import THREAD, computes_epilogue, is_bound, reads_of_other_threads

from tvm import relax  # isort: skip
from tvm.s_tir import dlight  # isort: skip

X, W = tensor(1, 8, 12, 12), tensor(16, 8, 3, 3)


def forked(x: Any, w: Any) -> Any:
    """A convolution with two uses of its result: more than one block follows its sum."""
    y = op.nn.relu(conv(x, w))
    return op.add(op.exp(y), op.sigmoid(y))


def kernel(words: str, expression: Any, *inputs: Any, name: str) -> Any:
    """The network's only unscheduled kernel whose name contains these letters."""
    (found,) = [
        one
        for symbol, one in lowered(expression, *inputs, name=name).unscheduled.functions_items()
        if words in str(symbol)
    ]
    return found


def scheduled(rule: Any, func: Any, name: str) -> Any:
    """A kernel scheduled by a rule; None if the rule does not apply."""
    made = rule.apply(func, target(name), False)
    return made.mod["main"] if made is not None else None


@pytest.fixture(scope="module")
def convolution() -> Any:
    return kernel("conv2d", forked, X, W, name=TEXTURE)


@pytest.fixture(scope="module")
def sort() -> Any:
    return kernel("sort", lambda x: op.sort(x, 1), tensor(1, 2000), name=BUFFER)


def test_a_schedule_with_blocks_outside_of_threads_is_not_bound(convolution: Any):
    assert not is_bound(scheduled(dlight.adreno.Conv2d(), convolution, TEXTURE))


def test_such_a_schedule_is_left_to_the_next_rule(convolution: Any):
    assert scheduled(BoundRule(dlight.adreno.Conv2d()), convolution, TEXTURE) is None


def test_a_convolutions_rule_sees_the_epilogue_as_one_block(convolution: Any):
    assert is_bound(scheduled(BoundRule(FuseEpilogue(dlight.adreno.Conv2d())), convolution, TEXTURE))


def test_the_last_rule_binds_any_kernel(convolution: Any):
    assert is_bound(scheduled(BoundRule(EachBlock()), convolution, TEXTURE))


def test_the_last_rule_binds_a_kernel_with_dynamic_dimensions():
    images = [tvm.tirx.Var("batch", "int64"), 8, 12, 12], "float32"
    dynamic = kernel("conv", forked, images, W, name=BUFFER)
    assert is_bound(scheduled(BoundRule(EachBlock()), dynamic, BUFFER))


def test_a_kernel_that_launches_its_threads_stays_unchanged(convolution: Any, sort: Any):
    assert tvm_ffi.structural_equal(scheduled(Launching(), sort, BUFFER), sort)
    assert scheduled(Launching(), convolution, TEXTURE) is None


def test_a_rule_that_fails_leaves_the_kernel(sort: Any):
    class Failing(dlight.base.ScheduleRule):
        def apply(self, func: Any, target: Any, tunable: bool) -> Any:
            raise IndexError(func)

    assert scheduled(BoundRule(Failing()), sort, BUFFER) is None


def gated(x: Any, w: Any, large: Any) -> Any:
    """A squeeze-and-excite gate: the result of a vector product is broadcast over an image."""
    return op.multiply(large, op.sigmoid(op.nn.conv2d(x, w)))


GATED = tensor(1, 8, 1, 1), tensor(16, 8, 1, 1), tensor(1, 16, 40, 40)


def test_a_schedule_with_two_extents_of_one_kind_of_thread_is_not_bound():
    made = scheduled(dlight.gpu.GEMV(), kernel("conv2d", gated, *GATED, name=BUFFER), BUFFER)
    threads: set[int] = set()
    tvm_ffi.structural_walk(
        made.body,
        (
            tvm.tirx.For,
            lambda loop: (
                threads.add(int(loop.extent))
                if loop.kind == THREAD and loop.thread_binding.thread_tag == "threadIdx.x"
                else None
            ),
        ),
    )
    assert len(threads) > 1
    assert not is_bound(made)


def test_a_rule_for_matmuls_leaves_kernels_that_broadcast_the_result():
    func = kernel("conv2d", gated, *GATED, name=BUFFER)
    assert scheduled(BoundRule(dlight.gpu.GEMV()), func, BUFFER) is None
    plain = kernel("conv2d", lambda x, w: op.nn.relu(op.nn.conv2d(x, w)), *GATED[:2], name=BUFFER)
    assert is_bound(scheduled(BoundRule(dlight.gpu.GEMV()), plain, BUFFER))


def one_channel(x: Any, w: Any, b: Any) -> Any:
    """A 1×1 convolution with a bias."""
    return op.add(op.nn.conv2d(x, w), b)


@pytest.mark.parametrize(
    ("words", "expression", "shapes"),
    [
        ("conv2d", one_channel, [(1, 1, 3, 3), (5, 1, 1, 1), (1, 5, 1, 1)]),
        ("mean", lambda x: op.cos(op.mean(x, 1)), [(2, 1, 5)]),
        ("mean", lambda x: op.add(op.mean(x, 1), relax.const(1, "float32")), [(2, 1, 5)]),
    ],
    ids=["a bias", "a function", "a number"],
)
def test_a_schedule_that_computes_an_epilogue_twice_is_refused(
    words: str, expression: Any, shapes: list[tuple[int, ...]]
):
    func = kernel(words, expression, *(tensor(*shape) for shape in shapes), name=BUFFER)
    assert computes_epilogue(scheduled(dlight.gpu.Fallback(), func, BUFFER))
    assert scheduled(BoundRule(dlight.gpu.Fallback()), func, BUFFER) is None


def test_a_plain_sum_of_one_element_is_taken():
    func = kernel("sum", lambda x: op.sum(x, 1), tensor(2, 1, 5), name=BUFFER)
    assert scheduled(BoundRule(dlight.gpu.Fallback()), func, BUFFER) is not None


VOLUME = tensor(1, 8, 1, 5, 7), tensor(4, 4, 1, 1, 1), tensor(1, 4, 1, 1, 1)


def grouped_volume(x: Any, w: Any, b: Any) -> Any:
    """A grouped 3-D convolution with bias."""
    return op.add(op.nn.conv3d(x, w, groups=2), b)


def test_a_schedule_that_reads_sums_of_other_threads_is_refused():
    func = kernel("conv3d", grouped_volume, *VOLUME, name=BUFFER)
    assert reads_of_other_threads(scheduled(dlight.gpu.Reduction(), func, BUFFER))
    assert scheduled(BoundRule(dlight.gpu.Reduction()), func, BUFFER) is None
    assert not reads_of_other_threads(scheduled(dlight.gpu.GeneralReduction(), func, BUFFER))


def test_nor_does_the_rule_for_vectors_keep_to_its_threads_after_a_vector_of_several_axes():
    func = kernel("conv2d", one_channel, tensor(1, 5, 3, 3), tensor(1, 5, 1, 1), tensor(1, 1, 1, 1), name=BUFFER)
    assert reads_of_other_threads(scheduled(dlight.gpu.GEMV(), func, BUFFER))
    assert scheduled(BoundRule(dlight.gpu.GEMV()), func, BUFFER) is None


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
def test_sums_of_groups_are_read_by_their_own_threads(tag: str):
    need("PoCL")
    opencl_library()
    generator = np.random.default_rng(1)
    x, w, b = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in [(1, 8, 1, 5, 7), (4, 4, 1, 1, 1), (1, 4, 1, 1, 1)]
    )
    built = executable(lowered(grouped_volume, *VOLUME, name=tag), tag)
    device = tvm.device("opencl", 0)
    values = [tvm.runtime.tensor(value, device) for value in (x, w, b)]
    found = tvm.relax.VirtualMachine(built, device)["main"](*values).numpy()
    groups = [np.einsum("bcdhw,fc->bfdhw", x[:, at : at + 4], w[at // 2 : at // 2 + 2, :, 0, 0, 0]) for at in (0, 4)]
    np.testing.assert_allclose(found, np.concatenate(groups, 1) + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
@pytest.mark.parametrize(("channels", "filters"), [(1, 5), (5, 1), (1, 1), (1, 8)])
def test_convolutions_of_or_to_one_channel_are_right(channels: int, filters: int, tag: str):
    need("PoCL")
    opencl_library()
    generator = np.random.default_rng(1)
    shapes = [(1, channels, 3, 3), (filters, channels, 1, 1), (1, filters, 1, 1)]
    x, w, b = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    built = executable(lowered(one_channel, *(tensor(*shape) for shape in shapes), name=tag), tag)
    device = tvm.device("opencl", 0)
    values = [tvm.runtime.tensor(value, device) for value in (x, w, b)]
    found = tvm.relax.VirtualMachine(built, device)["main"](*values).numpy()
    np.testing.assert_allclose(found, np.einsum("bchw,fc->bfhw", x, w[:, :, 0, 0]) + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
@pytest.mark.parametrize(("groups", "channels", "filters"), [(2, 8, 6), (3, 6, 12), (2, 4, 6), (2, 8, 8)])
def test_grouped_convolutions_have_a_schedule_that_can_be_lowered(groups: int, channels: int, filters: int, tag: str):
    """dlight puts reductions over threads into loops if a group's filters are not a power of two."""
    inputs = tensor(1, channels, 8, 8), tensor(filters, channels // groups, 3, 3)
    assert executable(lowered(lambda x, w: op.nn.conv2d(x, w, groups=groups), *inputs, name=tag), tag)


def halves(x: Any) -> Any:
    """Rotated channels (all of them) and other channels (none)."""
    left, right = op.strided_slice(x, [1], [0], [8]), op.strided_slice(x, [1], [8], [8])
    return op.concat([op.nn.relu(left), op.exp(right)], 1)


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
def test_kernels_without_elements_are_bound_and_run(tag: str):
    need("PoCL")
    opencl_library()
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    built = executable(lowered(halves, tensor(3, 8), name=tag), tag)
    device = tvm.device("opencl", 0)
    found = tvm.relax.VirtualMachine(built, device)["main"](tvm.runtime.tensor(x, device)).numpy()
    np.testing.assert_array_equal(found, np.maximum(x, 0))
