"""What candidates are drawn from: MetaSchedule's design spaces."""

from typing import Any

import tvm

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.records.workload import Workload

CUDA = "cuda"
"""A target kind, and MetaSchedule's name for rules without tensor cores."""

FIRST_SEED, SEEDS = 1, 2**31 - 1
"""Those that MetaSchedule takes."""


def meta_schedule_context(
    workload: Workload, strategy: Any, seed: int, target: "tvm.target.Target", threads: int
) -> "tvm.s_tir.meta_schedule.TuneContext":
    """MetaSchedule's context for one kernel.

    Args:
        strategy: MetaSchedule's search strategy, or its name.
        target: as :func:`for_rules` gives it.
        threads: of this process, for the search.
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

    if target.kind.name != CUDA:
        return PostOrderApply()
    # From sm_70 on, MetaSchedule's choice are the rules for tensor cores, which compute in float16 alone.
    return PostOrderApply(sch_rules=CUDA, postprocs=CUDA, mutator_probs=CUDA)


def for_rules(target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
    """The target with what MetaSchedule's rules need; the code of a schedule does not depend on it.

    The rules for CUDA throw away what has fewer threads in a block than a warp, after they have drawn it and replayed it:
    1 to 5 of 100 candidates of a convolution are left, and drawing a population takes half a minute. Without that bound it
    is 30 to 45 of 100, and the cost model learns which blocks are too small.

    Args:
        cores: of the device; CPU schedules are parallelised for them.
    """
    if target.kind.name == "llvm" and not target.attrs.get("num-cores"):
        return tvm.target.Target({**dict(target.export()), "num-cores": cores})
    if target.kind.name == CUDA:
        return tvm.target.Target({**dict(target.export()), "thread_warp_size": 1})
    return target
