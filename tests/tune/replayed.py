"""Real records without a search: MetaSchedule draws a few schedules of a kernel, postprocessed; nothing is timed."""

from collections.abc import Collection
from typing import Any

import tvm

from tvmake.codegen.kernel_analysis import work
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import replay
from tvmake.codegen.tunable import why_not_tuned
from tvmake.device.fingerprint import local_fingerprint
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.record import Record
from tvmake.records.workload import GENERATION, Workload, target_identity, workload
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.weights.prepack import SplitKernel, split
from tvmake.tune.search.whole_pixels import with_whole_pixels
from tvmake.tune.trace import trace_json


def traces(kernel: Workload, count: int = 1, seed: int = 1) -> list[Any]:
    """The JSON of ``count`` random schedules of a kernel."""
    light_intrinsics(kernel.target)
    from tvm.s_tir import meta_schedule

    target = kernel.target
    if target.kind.name == "llvm":
        target = tvm.target.Target({**dict(target.export()), "num-cores": 2})
    context = meta_schedule.TuneContext(
        kernel.module,
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=seed,
        num_threads=1,
        task_name="test",
    )
    context.pre_tuning(
        max_trials=count,
        num_trials_per_iter=count,
        design_spaces=[with_whole_pixels(space, kernel) for space in context.generate_design_space()],
        database=None,
        cost_model=None,
    )
    return [trace_json(candidate.sch.trace) for candidate in context.generate_measure_candidates()]


def record(trace: Any, latency_ms: float = 1.0) -> Record:
    """A record of a trace, as a search would have left it."""
    return Record(
        trace=trace,
        status="ok",
        samples_s=(latency_ms / 1000,) * 3,
        measured_at="2025-01-01T00:00:00+00:00",
        device=local_fingerprint(2),
        strategy="replay-trace",
        cost_model="random",
        seed=1,
        batch=0,
    )


def kernels(fused: "tvm.IRModule") -> dict[str, "tvm.tirx.PrimFunc"]:
    """The tensor functions of a fused module, by name."""
    return {
        str(variable.name_hint): function
        for variable, function in fused.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def has_code(kernel: Workload, trace: Any) -> bool:
    """Whether a schedule can be built: random ones for OpenCL sometimes vectorise what it has no code for."""
    scheduled = replay(kernel, trace)
    scheduled = (split(scheduled) or SplitKernel(scheduled, scheduled, ())).compute
    try:
        module = tvm.IRModule({"main": scheduled.with_attr("global_symbol", "main")})
        tvm.tirx.build(module, kernel.target, pipeline=kernel_pipeline(kernel.target))
    except tvm.error.InternalError:
        return False
    return True


def best_set(
    fused: "tvm.IRModule", target: "tvm.target.Target", without: Collection[str] = (), seed: int = 1
) -> BestSet:
    """A record for every kernel worth tuning, except some."""
    found = []
    for name, function in kernels(fused).items():
        if why_not_tuned(function, target):
            continue
        own = workload(function, target)
        kernel = BestKernel(workload=own.key, name=name, calls=1, flops=work(function))
        if name in without:
            kernel = kernel.model_copy(update={"reason": "none of 16 candidates worked"})
        else:
            found_trace = next(trace for trace in traces(own, 8, seed) if has_code(own, trace))
            chosen = {"record": record(found_trace), "latency_ms": 1.0, "trials": 1}
            kernel = kernel.model_copy(update=chosen)
        found.append(kernel)
    return BestSet(target=target_identity(target), generation=GENERATION, device_class="a test", kernels=tuple(found))
