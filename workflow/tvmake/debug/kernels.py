"""Run each kernel of a package separately on the package's device, and compare it with the unscheduled kernel on this machine's CPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm

from tvmake.codegen.lowering import Lowered, default_schedule
from tvmake.debug.diagnosis import Cause, Evidence, Finding
from tvmake.debug.relax_values import Step
from tvmake.process.isolation import Refused
from tvmake.targets.backends import backend_of
from tvmake.tune.verify.check import compare, scheduled_outputs
from tvmake.tune.verify.kernel_runner import KernelFailure, KernelRunner
from tvmake.tune.verify.tolerance import tolerance


@dataclass(frozen=True)
class WrongKernel:
    """A kernel whose output departs although its inputs are correct."""

    step: Step
    error: float
    """Largest difference, relative to the RMS; infinite without a comparable output."""
    reason: str
    schedule: str
    """``record <digest>``, ``rule`` or ``default``."""
    is_right_unscheduled: bool
    """Whether the kernel with TVM's default schedule is correct on the same device."""


def first_wrong_kernel(
    lowered: Lowered,
    steps: Sequence[Step],
    target: "tvm.target.Target",
    runner: KernelRunner,
    watch: Callable[[int], None] = lambda _: None,
    rounded: Callable[[Step, int], None] = lambda *_: None,
) -> WrongKernel | None:
    """Run the kernels in order, on their correct inputs, up to the first with a wrong output.

    Args:
        steps: of ``lowered.unscheduled``, run on this machine's CPU.
        watch: called with the number of kernels that were run.
        rounded: called with each correct kernel whose integers differ by one step, and their number.

    Raises:
        DeviceError: the device was lost.
    """
    for number, step in enumerate(steps):
        watch(number)
        if step.kernel is None:
            continue
        error, reason, apart = _check(lowered, step, _schedule(lowered, step.kernel, target), target, runner)
        if apart and not reason:
            rounded(step, apart)
        if reason:
            default = default_schedule(lowered.unscheduled, step.kernel, target)
            is_right = not _check(lowered, step, default, target, runner)[1]
            return WrongKernel(step, error, reason, _how(lowered, step.kernel), is_right)
    return None


def kernel_finding(wrong: WrongKernel, lowered: Lowered, evidence: Evidence) -> Finding:
    """The finding for a wrong kernel, with the remedy.

    Args:
        evidence: receives the kernel's inputs, expected outputs, and code.
    """
    name = str(wrong.step.kernel)
    arrays = wrong.step.result if isinstance(wrong.step.result, list) else [wrong.step.result]
    evidence.arrays.update({f"input{number}": argument for number, argument in enumerate(wrong.step.arguments)})
    evidence.arrays.update({f"expected{number}": array for number, array in enumerate(arrays)})
    evidence.texts["unscheduled.py"] = str(lowered.unscheduled[name])
    cause: Cause = "schedule" if wrong.is_right_unscheduled else "code generator or driver"
    if cause == "schedule":
        remedy = (
            "`tvmake records verify` quarantines wrong records; then run `tvmake make` again"
            if wrong.schedule.startswith("record")
            else "`build: {schedule_rules: false}` leaves the kernel to TVM's own rules"
        )
    else:
        remedy = "it is wrong with TVM's own schedule too: try another driver, or keep the operator on the CPU"
    return Finding(
        cause=cause,
        operator=name,
        value=wrong.step.name,
        shape=arrays[0].shape,
        dtype=str(arrays[0].dtype),
        error=wrong.error if np.isfinite(wrong.error) else None,
        detail=f"{wrong.reason} (schedule: {wrong.schedule})",
        remedy=remedy,
    )


def _check(
    lowered: Lowered, step: Step, kernel: "tvm.tirx.PrimFunc", target: "tvm.target.Target", runner: KernelRunner
) -> tuple[float, str, int]:
    """The largest error, the problem (empty without one), and the number of integers that differ by rounding."""
    unscheduled = lowered.unscheduled[str(step.kernel)]
    expected = step.result if isinstance(step.result, list) else [step.result]
    try:
        got = scheduled_outputs(lambda: kernel, unscheduled, target, step.arguments, runner)
    except (Refused, KernelFailure) as failure:
        return float("inf"), str(failure), 0
    # Real values, unlike small integers, whose sums would be exact.
    bound = tolerance(unscheduled, positive=True)
    apart = 0
    for want, have in zip(expected, got, strict=True):
        step_of_rounding = 1.0 if bound and np.asarray(want).dtype.kind in "iu" else 0.0
        comparison = compare(want, have, step_of_rounding)
        if comparison.error > bound:
            reason = comparison.reason or f"off by {comparison.error:.2g} of the RMS, {bound:.2g} is allowed"
            return comparison.error, reason, 0
        apart += int(np.count_nonzero(np.not_equal(want, have))) if step_of_rounding else 0
    return 0.0, "", apart


def _schedule(lowered: Lowered, kernel: str, target: "tvm.target.Target") -> "tvm.tirx.PrimFunc":
    """A kernel with the package's schedule."""
    # On GPUs, TVM's own rules follow; no weights are packed.
    return (
        lowered.final[kernel]
        if backend_of(target).binds_threads or lowered.unpacked is None
        else lowered.unpacked[kernel]
    )


def _how(lowered: Lowered, kernel: str) -> str:
    if kernel in lowered.tuned:
        return f"record {lowered.tuned[kernel][:12]}"
    return "rule" if kernel in lowered.ruled else "default"
