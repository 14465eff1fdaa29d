"""MetaSchedule's design spaces, from which candidates are drawn."""

from typing import Any

import tvm

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.records.workload import Workload
from tvmake.targets.backends import backend_of

FIRST_SEED, SEEDS = 1, 2**31 - 1
"""MetaSchedule's seeds."""


def meta_schedule_context(
    workload: Workload, strategy: Any, seed: int, target: "tvm.target.Target", threads: int
) -> "tvm.s_tir.meta_schedule.TuneContext":
    """Create MetaSchedule's context for one kernel.

    Args:
        strategy: MetaSchedule's search strategy, or its name.
        target: with the attributes that MetaSchedule's rules need (``Backend.search_target``).
        threads: number of threads of this process for the search.
    """
    light_intrinsics(workload.target)
    from tvm.s_tir import meta_schedule

    return meta_schedule.TuneContext(
        workload.module,
        target=target,
        space_generator=_generator(workload.target),
        search_strategy=strategy,
        task_name=workload.key[:12],
        rand_state=FIRST_SEED + seed % (SEEDS - FIRST_SEED),
        num_threads=threads,
    )


def _generator(target: "tvm.target.Target") -> Any:
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    rules = backend_of(target).search_rules
    return PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules) if rules else PostOrderApply()
