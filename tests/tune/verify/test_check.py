"""Check tuned kernels: correct ones pass with a margin, wrong ones fail for any defect."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.graphs import kernel, kernel_workload
from tests.tune.replayed import record, traces
from tvmake.codegen.run_kernel import Tensor
from tvmake.config.device import LocalDeviceConfig
from tvmake.errors import MachineError
from tvmake.ir.attributes import TF32
from tvmake.records.workload import Workload
from tvmake.tune.trace import trace_json
from tvmake.tune.verify.check import Checker, compare
from tvmake.tune.verify.kernel_runner import KernelFailure, LocalKernelRunner, kernel_runner
from tvmake.tune.verify.tolerance import LAMBDA, random_inputs, tolerance

op = tvm.relax.op
F32, F16 = "float32", "float16"

pytestmark = pytest.mark.usefixtures("shared_servers")

CONV = (lambda x, w: op.nn.relu(op.nn.conv2d(x, w, padding=1)), ((1, 64, 14, 14), F32), ((32, 64, 3, 3), F32))


@pytest.fixture(scope="module")
def conv() -> Workload:
    return kernel_workload(*CONV, weights=True)


@pytest.fixture(scope="module")
def runner() -> LocalKernelRunner:
    return LocalKernelRunner()


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        (CONV[0], CONV[1:]),
        (CONV[0], [((1, 64, 14, 14), F16), ((32, 64, 3, 3), F16)]),
        (
            lambda x, w: op.nn.conv2d(x, w, padding=1, out_dtype="int32"),
            [((1, 16, 14, 14), "int8"), ((32, 16, 3, 3), "int8")],
        ),
        (lambda x: op.nn.softmax(x), [((64, 1000), F32)]),
        (lambda x: op.nn.softmax(x), [((64, 1000), F16)]),
        (lambda x: op.sum(x, axis=1), [((4, 100_000), F32)]),
        (lambda x: op.log(x), [((300, 1000), F32)]),
        (
            lambda x, w: op.astype(op.round(op.multiply(op.nn.conv2d(x, w), tvm.relax.const(0.9, F32))), "int8"),
            CONV[1:],
        ),
        (lambda x, i: op.take(x, i, 0), [((10, 2000), F32), ((50,), "int64")]),
        (lambda x: op.argmax(x, 1), [((50, 1000), F32)]),
        (lambda x, s: op.multiply(op.nn.softmax(x), s), [((64, 1000), F32), ((), F32)]),
    ],
    ids=[
        "conv",
        "conv float16",
        "conv int8",
        "softmax",
        "softmax float16",
        "long sum",
        "log",
        "rounded",
        "gather",
        "argmax",
        "an operand without axes",
    ],
)
def test_schedules_of_metaschedule_are_right_with_room_to_spare(expression, inputs, runner):
    own = kernel_workload(expression, *inputs, weights=True)
    checker = Checker(own, runner)
    (trace,) = traces(own)
    candidate = record(trace)
    verdict = checker.check(candidate)
    assert verdict.right, verdict.reason
    assert verdict.record == candidate.digest
    bound = tolerance(own.module["main"])
    assert verdict.worst_error is not None and verdict.worst_error <= bound / 4


def tampered(conv: Workload, change: Callable[["tvm.s_tir.Schedule"], None]) -> object:
    """The trace of a hand-made schedule."""
    schedule = tvm.s_tir.Schedule(conv.module)
    change(schedule)
    return trace_json(schedule.trace)


def halve_the_channels(schedule: "tvm.s_tir.Schedule") -> None:
    """Two channels share an element of a buffer."""
    schedule.transform_layout(
        schedule.get_sblock("conv2d_nchw"),
        ("write", 0),
        lambda n, c, h, w: (n, c // 2, h, w),
        assume_injective_transform=True,
    )


def narrow_the_sum(schedule: "tvm.s_tir.Schedule") -> None:
    """Sums in int8 instead of float32; builds compute what a schedule narrows to float16 or bfloat16 in float32 again."""
    schedule.unsafe_set_dtype(schedule.get_sblock("conv2d_nchw"), 0, "int8")


@pytest.mark.parametrize("change", [halve_the_channels, narrow_the_sum])
def test_a_schedule_that_computes_something_else_is_wrong(conv, runner, change):
    verdict = Checker(conv, runner).check(record(tampered(conv, change)))
    assert not verdict.right
    assert "of the RMS" in verdict.reason and verdict.worst_error > 10 * tolerance(conv.module["main"])


@pytest.mark.parametrize(
    ("trace", "reason"),
    [({"surprise": 1}, "not a trace"), ([[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []], "Cannot find")],
)
def test_a_trace_that_does_not_apply_is_wrong_with_the_reason(conv, runner, trace, reason):
    verdict = Checker(conv, runner).check(record(trace))
    assert not verdict.right and reason in verdict.reason and verdict.worst_error is None


def test_a_kernel_that_cannot_be_built_is_wrong_with_the_reason(conv, runner):
    def bind(schedule: "tvm.s_tir.Schedule") -> None:
        schedule.annotate(schedule.get_loops("conv2d_nchw")[1], "pragma_import_llvm", "no LLVM")

    verdict = Checker(conv, runner).check(record(tampered(conv, bind)))
    assert not verdict.right and "cannot be built" in verdict.reason


def test_a_full_disk_makes_no_kernel_wrong(conv, tmp_path: Path):
    linker = tmp_path / "cc"
    linker.write_text("#!/bin/sh\necho 'ld: final link failed: No space left on device' >&2\nexit 1\n")
    linker.chmod(0o755)
    with pytest.raises(MachineError, match="no space left on the disk"):
        Checker(conv, LocalKernelRunner(compiler=str(linker))).check(record(tampered(conv, lambda schedule: None)))


C_KERNEL = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
int32_t __tvm_ffi_main(void* self, void* arguments, int32_t count, void* result) {{ {body} return 0; }}
"""


@pytest.fixture
def c_kernel(tmp_path: Path) -> Callable[[str], Path]:
    def make(body: str) -> Path:
        source, library = tmp_path / "kernel.c", tmp_path / "kernel.so"
        source.write_text(C_KERNEL.format(body=body))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return library

    return make


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("*(volatile int*)0 = 1;", "ended with SIG(SEGV|ABRT)"),
        ("for (;;) sleep(1);", "did not end within 8 s"),
        ("abort();", "ended with SIGABRT"),
    ],
    ids=["crash", "hang", "abort"],
)
def test_a_kernel_that_crashes_or_hangs_leaves_the_caller_unharmed(c_kernel, body, reason):
    runner = LocalKernelRunner(timeout_s=8)
    with pytest.raises(KernelFailure, match=reason):
        runner.run(c_kernel(body), [], [Tensor(dtype=F32, shape=(4,))], fill=0xFF)


def test_kernels_run_with_the_variables_of_their_device(c_kernel):
    library = c_kernel('if (!getenv("TVMAKE_TEST_DRIVER")) abort();')
    config = LocalDeviceConfig(env={"TVMAKE_TEST_DRIVER": "theirs"})
    target = tvm.target.Target("llvm")
    assert kernel_runner("here", config, target, "g++").run(library, [], [Tensor(dtype=F32, shape=(4,))], fill=0)
    with pytest.raises(KernelFailure, match="SIGABRT"):
        kernel_runner("here", LocalDeviceConfig(), target, "g++").run(library, [], [], fill=0)


def test_unwritten_outputs_are_nan(c_kernel):
    (got,) = LocalKernelRunner().run(c_kernel(""), [], [Tensor(dtype=F32, shape=(4,))], fill=0xFF)
    assert np.isnan(got).all()
    assert compare(np.zeros(4, F32), got).reason == "4 of 4 values are NaN, infinite or were never written"


def test_outputs_are_compared_by_their_rms_and_large_values_by_their_own_size():
    ones = np.ones(100, F32)
    assert compare(ones, ones + np.float32(0.5)).error == 0.5
    spike = np.concatenate([ones, [1000]])
    assert compare(spike, spike * 1.25).error == pytest.approx(0.25, rel=0.01)
    assert compare(np.zeros(3), np.zeros(3)).error == 0
    assert compare(np.zeros(3), np.array([0, 0, 1e-9])).reason == "it is not zero where the reference is"
    assert compare(np.array([1, np.inf, np.nan]), np.array([1, np.inf, np.nan])).error == 0
    assert compare(np.array([1, np.inf]), np.array([1, 2])).reason == "it is finite where the reference is not"
    assert compare(np.array([3, 4], "int64"), np.array([3, 5], "int64")).error > 0
    assert compare(np.array([3, 4], "int8"), np.array([3, 5], "int8"), step=1).error == 0


def test_the_bound_grows_with_the_root_of_the_number_of_terms_unless_sums_are_exact():
    def conv_bound(channels: int, dtype: str, out: str | None = None) -> float:
        shapes = ((1, channels, 8, 8), dtype), ((8, channels, 3, 3), dtype)
        return tolerance(kernel(lambda x, w: op.nn.conv2d(x, w, padding=1, out_dtype=out), *shapes))

    assert conv_bound(512, F32) / conv_bound(32, F32) == pytest.approx(4, rel=0.1)
    assert conv_bound(512, F16) == conv_bound(32, F16) < 0.02
    assert conv_bound(512, F16, F32) < 1e-5
    assert conv_bound(512, "int8", "int32") == 0
    # One term of 4,608 that is left out must show.
    assert conv_bound(512, F32) < 1 / np.sqrt(4608) / 100


def test_the_bound_of_tf32_products_is_independent_of_the_number_of_terms():
    def bound(length: int, in_tf32: bool) -> float:
        function = kernel(op.matmul, ((8, length), F32), ((length, 8), F32))
        return tolerance(function.with_attr(TF32, True) if in_tf32 else function)

    costs = [bound(length, True) - bound(length, False) for length in (16, 4096)]
    assert costs[0] == pytest.approx(costs[1]) == pytest.approx(LAMBDA * 2**-11)


def test_inputs_are_right_for_their_type_and_the_same_for_the_same_seed():
    function = kernel(lambda x, i: op.take(x, i, 0), ((10, 2000), F32), ((50,), "int64"))
    table, indices = random_inputs(function, 1)
    assert indices.dtype == np.int64 and indices.min() >= 0 and 1 < indices.max() < 10
    assert abs(table.std() - 1) < 0.05
    np.testing.assert_array_equal(table, random_inputs(function, 1)[0])
    assert (random_inputs(function, 1, positive=True)[0] > 0).all()
    (small,) = random_inputs(kernel(lambda x: op.nn.softmax(x), ((64, 1000), F16)), 1)
    assert set(np.unique(small)) == {-1, 0, 1}
