"""What candidates are drawn from, and how: MetaSchedule's design spaces and search strategies."""

from typing import Any

from tvmake.config.requests.tuning import SearchOptions
from tvmake.quick_tvm import tvm
from tvmake.tune.light_intrinsics import light_intrinsics
from tvmake.tune.workload import Workload


def context(
    workload: Workload, options: SearchOptions, cores: int, threads: int
) -> "tvm.s_tir.meta_schedule.TuneContext":
    """MetaSchedule's context for one kernel.

    Args:
        cores: of the device; CPU schedules are parallelised for them.
        threads: of this process, for the search.
    """
    light_intrinsics(workload.target)
    from tvm.s_tir import meta_schedule

    return meta_schedule.TuneContext(
        workload.module,
        target=with_cores(workload.target, cores),
        space_generator="post-order-apply",
        search_strategy=_strategy(options),
        task_name=workload.key[:12],
        # MetaSchedule takes seeds from 1 on.
        rand_state=options.seed + 1,
        num_threads=threads,
    )


def with_cores(target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
    """The target with the number of cores that MetaSchedule's CPU rules ask for; code does not depend on it."""
    if target.kind.name != "llvm" or target.attrs.get("num-cores"):
        return target
    return tvm.target.Target({**dict(target.export()), "num-cores": cores})


def _strategy(options: SearchOptions) -> Any:
    from tvm.s_tir import meta_schedule

    if options.strategy == "evolutionary":
        return meta_schedule.search_strategy.EvolutionarySearch(
            population_size=options.population, init_min_unmeasured=min(50, options.population)
        )
    if options.strategy == "replay-func":
        return meta_schedule.search_strategy.ReplayFunc()
    return meta_schedule.search_strategy.ReplayTrace()
