"""What candidates are drawn from: MetaSchedule's design spaces."""

from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.tune.light_intrinsics import light_intrinsics
from tvmake.tune.workload import Workload

FIRST_SEED, SEEDS = 1, 2**31 - 1
"""Those that MetaSchedule takes."""


def context(
    workload: Workload, strategy: Any, seed: int, cores: int, threads: int
) -> "tvm.s_tir.meta_schedule.TuneContext":
    """MetaSchedule's context for one kernel.

    Args:
        strategy: MetaSchedule's search strategy, or its name.
        cores: of the device; CPU schedules are parallelised for them.
        threads: of this process, for the search.
    """
    light_intrinsics(workload.target)
    from tvm.s_tir import meta_schedule

    return meta_schedule.TuneContext(
        workload.module,
        target=with_cores(workload.target, cores),
        space_generator="post-order-apply",
        search_strategy=strategy,
        task_name=workload.key[:12],
        rand_state=FIRST_SEED + seed % (SEEDS - FIRST_SEED),
        num_threads=threads,
    )


def with_cores(target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
    """The target with the number of cores that MetaSchedule's CPU rules ask for; code does not depend on it."""
    if target.kind.name != "llvm" or target.attrs.get("num-cores"):
        return target
    return tvm.target.Target({**dict(target.export()), "num-cores": cores})
