"""Apply schedule rules only if the whole kernel then runs on the device.

A rule of dlight is used if it works and binds every block to threads; the last rule binds any kernel.
Repair: `dlight-blocks-outside-threads`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.errors import InputError
from tvmake.ir.dimensions import is_known
from tvmake.targets.gpu.schedule_checks import computes_epilogue, is_bound, is_launch, reads_of_other_threads

from tvm.s_tir.dlight import analysis  # isort: skip
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip


def general_rules() -> list[ScheduleRule]:
    """Rules for the kernels of any GPU; the last one accepts every kernel."""
    from tvm.s_tir.dlight import gpu

    products = [BoundRule(gpu.Matmul()), BoundRule(gpu.GEMV())]
    others = [BoundRule(rule) for rule in (gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())]
    return [Launching(), *products, *others, EachBlock()]


def refuse_unbound(module: "tvm.IRModule") -> None:
    """Refuse a module for a GPU with a kernel that would run on the host.

    Raises:
        InputError: naming the kernel.
    """
    for symbol, func in module.functions_items():
        is_kernel = isinstance(func, tvm.tirx.PrimFunc) and "tirx.is_host_func" not in func.attrs
        if is_kernel and not is_bound(func):
            problem = "a part of this kernel is outside of threads, and would run on the host"
            remedy = "build it for another target, and report the network: every kernel should have a schedule"
            raise InputError(str(symbol.name_hint), problem, remedy)


class BoundRule(ScheduleRule):
    """A rule that passes a kernel on if it fails, leaves a block outside threads, or reduces wrongly."""

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """The rule's schedule; None if the kernel would not run entirely on the device."""
        try:
            schedules = self.rule.apply(func, target, tunable)
            for schedule in schedules if isinstance(schedules, list) else [schedules]:
                if schedule is None or not _is_valid(schedule.mod):
                    return None
        except (
            tvm.error.InternalError, tvm.s_tir.ScheduleError, AssertionError, AttributeError, IndexError, KeyError,
            RuntimeError, TypeError, ValueError,
        ):  # fmt: skip
            return None
        return schedules


def _is_valid(module: "tvm.IRModule") -> bool:
    """Whether a scheduled kernel runs entirely on the device, with correct reductions.

    Raises:
        RuntimeError: TVM cannot lower a reduction over threads, because it is within a loop of each thread.
    """
    tvm.s_tir.transform.LowerCrossThreadReduction()(module)
    func = module["main"]
    return is_bound(func) and not computes_epilogue(func) and not reads_of_other_threads(func)


class Launching(ScheduleRule):
    """Leave kernels with their own threads unchanged, such as TVM's scatter kernels."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """The kernel's own schedule; None for kernels that launch no threads yet."""
        if not isinstance(func, tvm.tirx.PrimFunc):
            return None
        launches: list[Any] = []
        tvm_ffi.structural_walk(
            func.body, (tvm.tirx.AttrStmt, lambda node: launches.append(node) if is_launch(node) else None)
        )
        return tvm.s_tir.Schedule(func) if launches and is_bound(func) else None


class EachBlock(ScheduleRule):
    """Bind the loops of each block separately: slow, but correct for every kernel."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule for any kernel of blocks; None for others."""
        if not isinstance(func, tvm.tirx.PrimFunc):
            return None
        schedule = tvm.s_tir.Schedule(func)
        threads = int(target.attrs.get("max_num_threads", 256))
        for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
            bind(schedule, block, threads)
        return schedule


def bind(schedule: Any, block: Any, threads: int, lanes: int = 0) -> None:
    """Bind a block's spatial loops to threads.

    Args:
        lanes: number of innermost spatial loops that stay within a thread; vectorised without a reduction.
    """
    info = analysis.get_sblock_info(schedule, block)
    spatial = [axis.loop_rv for axis in info.iters if axis.kind == "S"]
    others = [axis.loop_rv for axis in info.iters if axis.kind != "S"]
    inner, spatial = spatial[len(spatial) - lanes :], spatial[: len(spatial) - lanes]
    if any(_is_empty(schedule.get(loop)) for loop in (*spatial, *inner)):
        # TVM divides by the extents of loops that it fuses, so these stay unfused, in one thread.
        spatial, inner, others = [], [], [*spatial, *inner, *others]
    if not spatial:
        spatial = [schedule.add_unit_loop(block if not (inner or others) else (inner or others)[0])]
    schedule.reorder(*spatial, *inner, *others)
    outer = schedule.fuse(*spatial)
    extent = schedule.get(outer).extent
    blocks, threads_of_block = schedule.split(outer, [None, min(threads, int(extent)) if is_known(extent) else threads])
    schedule.bind(blocks, "blockIdx.x")
    schedule.bind(threads_of_block, "threadIdx.x")
    if inner and not others:
        schedule.vectorize(inner[0])


def _is_empty(loop: Any) -> bool:
    return isinstance(loop.extent, tvm.tirx.IntImm) and int(loop.extent) == 0
