"""Schedule the kernels of a fused module with their tuning records."""

from tvmake.quick_tvm import tvm
from tvmake.target.pipeline import Applied
from tvmake.tune.best import BestSet
from tvmake.tune.replay import ReplayError, replay
from tvmake.tune.workload import GENERATION, target_identity, workload

IS_SCHEDULED = "tirx.is_scheduled"
"""Keeps default schedules away (dlight), as MetaScheduleApplyDatabase does."""


def apply_best(fused: "tvm.IRModule", target: "tvm.target.Target", best: BestSet) -> Applied:
    """Put scheduled kernels in place of those that have a record; the others stay as they are.

    A record that does not apply, whatever is wrong with it, is a miss with a reason.

    Args:
        fused: Relax calling unscheduled kernels, exactly as kernels were extracted from it.
    """
    foreign = _why_foreign(target, best)
    known = {} if foreign else best.by_workload()
    functions, tuned, misses = dict(fused.functions_items()), {}, {}
    for variable, function in fused.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        name, own = str(variable.name_hint), workload(function, target)
        kernel = known.get(own.key)
        if kernel is None:
            misses[name] = foreign or "it was not tuned"
        elif kernel.record is None:
            misses[name] = kernel.reason or "it has no valid record"
        else:
            try:
                functions[variable] = _in_place_of(function, replay(own, kernel.record.trace))
                tuned[name] = kernel.record.digest
            except ReplayError as error:
                misses[name] = str(error)
    module = tvm.IRModule(functions, attrs=fused.attrs, global_infos=fused.global_infos)
    return Applied(module, tuned, misses)


def _why_foreign(target: "tvm.target.Target", best: BestSet) -> str | None:
    if best.generation != GENERATION:
        return f"the records are for {best.generation}, this is {GENERATION}"
    if best.target != target_identity(target):
        return "the records are for another target"
    return None


def _in_place_of(original: "tvm.tirx.PrimFunc", scheduled: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The scheduled body with the original's attributes."""
    for name in scheduled.attrs.keys():
        scheduled = scheduled.without_attr(name)
    return scheduled.with_attr({**dict(original.attrs), IS_SCHEDULED: True})
