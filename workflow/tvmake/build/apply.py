"""Schedule the kernels of a fused module with their tuning records."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.records.record import Record
from tvmake.target.pipeline import Applied
from tvmake.tune.best import BestSet
from tvmake.tune.isolated_replay import replay_all
from tvmake.tune.isolation import Refused
from tvmake.tune.workload import GENERATION, Workload, target_identity, workload

IS_SCHEDULED = "tirx.is_scheduled"
"""Keeps default schedules away (dlight), as MetaScheduleApplyDatabase does."""

EMPTY: Mapping[str, str] = MappingProxyType({})


def apply_best(
    fused: "tvm.IRModule", target: "tvm.target.Target", best: BestSet, refused: Mapping[str, str] = EMPTY
) -> Applied:
    """Put scheduled kernels in place of those that have a record; the others stay as they are.

    A record that does not apply, whatever is wrong with it, is a miss with a reason.

    Args:
        fused: Relax calling unscheduled kernels, exactly as kernels were extracted from it.
        refused: kernels to leave as they are although there is a record, with the reason.
    """
    foreign = _why_foreign(target, best)
    known = {} if foreign else best.by_workload()
    misses: dict[str, str] = {}
    found: dict[Any, tuple[Workload, Record]] = {}
    for variable, function in fused.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        own = workload(function, target)
        kernel = known.get(own.key)
        if kernel is None:
            misses[str(variable.name_hint)] = foreign or "it was not tuned"
        elif kernel.record is None:
            misses[str(variable.name_hint)] = kernel.reason or "it has no valid record"
        elif str(variable.name_hint) in refused:
            misses[str(variable.name_hint)] = refused[str(variable.name_hint)]
        else:
            found[variable] = own, kernel.record
    functions, tuned = dict(fused.functions_items()), {}
    replayed = replay_all([(own, record.trace) for own, record in found.values()])
    for (variable, (_, record)), scheduled in zip(found.items(), replayed, strict=True):
        if isinstance(scheduled, Refused):
            misses[str(variable.name_hint)] = str(scheduled)
        else:
            functions[variable] = _in_place_of(functions[variable], scheduled)
            tuned[str(variable.name_hint)] = record.digest
    return Applied(tvm.IRModule(functions, attrs=fused.attrs, global_infos=fused.global_infos), tuned, misses)


def _why_foreign(target: "tvm.target.Target", best: BestSet) -> str | None:
    if best.generation != GENERATION:
        return f"the records are for {best.generation}, this is {GENERATION}"
    if best.target != target_identity(target):
        return "the records are for another target"
    return None


def _in_place_of(original: "tvm.tirx.PrimFunc", scheduled: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The scheduled body with the original's attributes."""
    for name in dict(scheduled.attrs):
        scheduled = scheduled.without_attr(name)
    return scheduled.with_attr({**dict(original.attrs), IS_SCHEDULED: True})
