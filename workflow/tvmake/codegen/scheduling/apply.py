"""Schedule the kernels of a fused module with their tuning records."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tvm

from tvmake.codegen.lowering import Applied
from tvmake.codegen.scheduling.replay import replay_all
from tvmake.ir.bounds import bounds_of
from tvmake.process.isolation import Refused
from tvmake.records.best import BestSet
from tvmake.records.record import Record
from tvmake.records.workload import GENERATION, Workload, target_identity, workload
from tvmake.targets.backends import backend_of
from tvmake.targets.kernels.scheduled_kernel import with_scheduled_body

EMPTY: Mapping[str, str] = MappingProxyType({})


def apply_best(
    fused: "tvm.IRModule", target: "tvm.target.Target", best: BestSet, refused: Mapping[str, str] = EMPTY
) -> Applied:
    """Replace the kernels that have a record by scheduled ones.

    A record that cannot be applied, for whatever reason, is a miss with that reason.

    Args:
        fused: Relax calling unscheduled kernels, exactly as kernels were extracted from it.
        refused: kernels to leave unchanged although they have a record, with the reason.
    """
    foreign = _why_foreign(target, best)
    best_kernels = {} if foreign else best.by_workload()
    misses: dict[str, str] = {}
    records: dict[Any, tuple[Workload, Record]] = {}
    for variable, function in fused.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        unscheduled = workload(function, target)
        kernel = best_kernels.get(unscheduled.key)
        if kernel is None:
            misses[str(variable.name_hint)] = foreign or "it was not tuned"
        elif kernel.record is None:
            misses[str(variable.name_hint)] = kernel.reason or "it has no valid record"
        elif str(variable.name_hint) in refused:
            misses[str(variable.name_hint)] = refused[str(variable.name_hint)]
        else:
            records[variable] = unscheduled, kernel.record
    functions, tuned = dict(fused.functions_items()), {}
    backend, bounds = backend_of(target), bounds_of(fused) if records else {}
    replayed = replay_all([(unscheduled, record.trace) for unscheduled, record in records.values()])
    for (variable, (_, record)), scheduled in zip(records.items(), replayed, strict=True):
        if isinstance(scheduled, Refused):
            misses[str(variable.name_hint)] = str(scheduled)
        elif reason := backend.why_not_within(scheduled, bounds):
            misses[str(variable.name_hint)] = reason
        else:
            functions[variable] = with_scheduled_body(functions[variable], scheduled)
            tuned[str(variable.name_hint)] = record.digest
    return Applied(tvm.IRModule(functions, attrs=fused.attrs, global_infos=fused.global_infos), tuned, misses)


def _why_foreign(target: "tvm.target.Target", best: BestSet) -> str | None:
    if best.generation != GENERATION:
        return f"the records are for {best.generation}, this is {GENERATION}"
    if best.target != target_identity(target):
        return "the records are for another target"
    return None
