"""Pick best from a lock: the records that a run was built with, regardless of later measurements."""

from pathlib import Path
from typing import Any

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Task, TaskList
from tvmake.errors import InputError
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.frozen import LockedKernel, read_frozen
from tvmake.records.record import Record, TuningContext
from tvmake.records.store import RecordStore


def pick_locked(tasks: Path, store: RecordStore, lock: Path, variant: str, best: Path) -> BestSet:
    """Write ``best`` from the lock's records. No device is used, and nothing is measured or checked.

    Args:
        store: where the records are.
        variant: ``model/precision/target``.

    Raises:
        InputError: a file is missing or damaged, the lock has no such variant, or its records are not in the store.
        MachineError: the store cannot be read.
    """
    listed = stage_json.load(TaskList, tasks)
    frozen = read_frozen(lock).records_of(variant, lock)
    locked_kernels = {kernel.workload: kernel for kernel in frozen.kernels}
    missing: list[LockedKernel] = []

    def record_of(kernel: LockedKernel, context: TuningContext) -> Record | None:
        if kernel.record is None:
            return None
        matches = [stored for stored in store.load(context, kernel.workload) if stored.digest == kernel.record]
        if not matches:
            missing.append(kernel)
        return matches[0].record if matches else None

    def pick(task: Task) -> BestKernel:
        kernel = locked_kernels.get(task.workload)
        if kernel is None:
            fields: dict[str, Any] = {"reason": task.trivial or f"{lock.name} has no record of it"}
        else:
            fields = kernel.model_dump(include={"latency_ms", "trials", "curve", "reason"})
            fields["record"] = record_of(kernel, frozen.context)
        return BestKernel(workload=task.workload, name=task.names[0], calls=task.calls, flops=task.flops, **fields)

    kernels = tuple(pick(task) for task in listed.tasks)
    if missing:
        first = missing[0]
        more = f" and of {len(missing) - 1} more kernels" if len(missing) > 1 else ""
        raise InputError(
            str(lock),
            f"the record {str(first.record)[:12]}… of {first.name}{more} is not in {store.root}",
            "bring the records here: `tvmake bundle import`, `tvmake records import` or `tvmake records pull`",
        )
    best_set = BestSet(
        target=listed.target, generation=frozen.generation, device_class=frozen.device_class, kernels=kernels
    )
    stage_json.save(best_set, best)
    return best_set
