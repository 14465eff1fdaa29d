"""Which kernels are not tuned, and the reasons given."""

import pytest
import tvm

from tests.tune.graphs import kernel
from tvmake.codegen.kernel_analysis import flops, why_trivial, work

op = tvm.relax.op
F32 = "float32"


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        (lambda x, y: op.matmul(x, y), [((32, 64), F32), ((64, 32), F32)]),
        (lambda x, y: op.nn.conv2d(x, y), [((1, 4, 9, 9), F32), ((4, 4, 3, 3), F32)]),
        (lambda x: op.nn.softmax(x), [((64, 128), F32)]),
        (lambda x: op.nn.relu(x), [((512, 512), F32)]),
        (lambda x: op.permute_dims(x), [((512, 512), F32)]),
    ],
    ids=["matmul", "conv2d", "softmax", "large element-wise", "large transpose"],
)
def test_kernels_with_something_to_gain_are_tuned(expression, inputs):
    assert why_trivial(kernel(expression, *inputs)) is None


@pytest.mark.parametrize(
    ("expression", "inputs", "reason"),
    [
        (lambda x: op.reshape(x, (512, 512)), [((1024, 256), F32)], "it is a reshape, which costs nothing"),
        (lambda x: op.astype(x, "float16"), [((20, 20), F32)], "too little work (400 operations)"),
        (lambda x: op.nn.softmax(x), [((1, 10), F32)], "too little work (40 operations)"),
        (lambda x: op.topk(x, 3), [((100, 2000), F32)], "its loops are fixed"),
    ],
    ids=["reshape", "cast", "small softmax", "topk"],
)
def test_kernels_with_nothing_to_gain_or_no_schedules_are_not_and_say_why(expression, inputs, reason):
    assert why_trivial(kernel(expression, *inputs)) == reason


def test_a_scheduled_kernel_stays_unchanged():
    scheduled = kernel(lambda x, y: op.matmul(x, y), ((32, 64), F32), ((64, 32), F32))
    assert why_trivial(scheduled.with_attr("tirx.is_scheduled", True)) == "it comes scheduled"


def test_work_counts_arithmetic_or_values_moved():
    assert work(kernel(lambda x, y: op.matmul(x, y), ((32, 64), F32), ((64, 32), F32))) == 2 * 32 * 64 * 32
    transpose = kernel(lambda x: op.permute_dims(x), ((300, 200), F32))
    assert (flops(transpose), work(transpose)) == (0, 300 * 200)
