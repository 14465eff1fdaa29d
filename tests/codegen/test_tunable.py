"""Which kernels with dynamic dimensions are tuned, and the reasons given for the others."""

import pytest
import tvm

from tests.tune.dynamic import dense, dim, points, relu_kernel
from tests.tune.graphs import CPU, kernel
from tvmake.artifact.tasks import DYNAMIC
from tvmake.codegen.kernel_analysis import flops, work
from tvmake.codegen.tunable import NO_RULE, SCALARS, SIZED_BY_DATA, mean, mean_flops, why_not_tuned
from tvmake.config.target import TargetConfig
from tvmake.targets.resolve import tvm_target

op = tvm.relax.op
SIZES = points({"n": 64}, {"n": 192})


def test_a_kernel_with_a_rule_and_enough_work_is_tuned():
    assert why_not_tuned(relu_kernel(), CPU, SIZES) is None
    assert why_not_tuned(dense().module["main"], CPU, points({"n": 1}, {"n": 64})) is None


def test_too_little_work_is_that_of_the_mean_of_the_sizes():
    assert why_not_tuned(relu_kernel(), CPU, points({"n": 1}, {"n": 3})) == "too little work (1024 operations)"


def test_work_and_operations_are_means_over_the_sizes():
    assert mean(work, relu_kernel(), SIZES) == 128 * 512
    assert mean_flops(dense(8, 8).module["main"], SIZES) == 128 * 8 * (2 * 8 + 1)
    fixed = kernel(lambda x: op.nn.relu(x), ((128, 512), "float32"))
    assert mean_flops(fixed, ()) == flops(fixed)


def test_a_kernel_whose_sizes_are_unknown_is_not_tuned():
    assert why_not_tuned(relu_kernel(), CPU) == SIZED_BY_DATA


def test_a_kernel_with_a_scalar_argument_is_not_tuned():
    function = relu_kernel()
    scalar = tvm.tirx.Var("p", "int64")
    more = tvm.tirx.PrimFunc([*function.params, scalar], function.body, function.ret_type, attrs=function.attrs)
    assert why_not_tuned(more, CPU, SIZES) == SCALARS


def test_a_kernel_without_a_rule_is_not_tuned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tvmake.targets.cpu.schedules.rule.schedule_by_rule", lambda *_: None)
    assert why_not_tuned(relu_kernel(), CPU, SIZES) == NO_RULE


def test_gpus_tune_dynamic_kernels_with_code_for_ranges_of_sizes():
    target = tvm_target(TargetConfig(tag="adreno-730-buffer"), "targets.gpu")
    matmul = kernel(lambda x, w: op.matmul(x, w), ((dim("n"), 64), "float32"), ((64, 96), "float32"), target=target)
    assert why_not_tuned(matmul, target, SIZES) is None
    assert why_not_tuned(relu_kernel(target), target, SIZES) == NO_RULE


def test_other_targets_tune_no_dynamic_kernels_and_say_so():
    assert why_not_tuned(relu_kernel(), tvm.target.Target("hexagon"), SIZES) == DYNAMIC
