"""Pick best: for each kernel of a variant, choose the fastest record with a correct output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.config.requests.tuning import PickBestRequest
from tvmake.stages.descriptor import LOCK, Input, Log, Output, Stage

if TYPE_CHECKING:
    from tvmake.artifact.tasks import Task
    from tvmake.records.best import BestKernel, BestSet
    from tvmake.records.record import Comparison, TuningContext
    from tvmake.records.store import RecordStore, StoredRecord
    from tvmake.stages.context import JobContext
    from tvmake.tune.verify.check import Checker

MOST_WRONG = 20
"""Number of wrong records after which a kernel counts as untuned: the kernel is at fault, not the schedules."""


def pick_best(
    tasks: Path,
    workloads: Path,
    receipts: Sequence[Path],
    request: PickBestRequest,
    best: Path,
    frozen: Path | None = None,
    variant: str = "",
) -> BestSet:
    """Write ``best`` (a BestSet). Verdicts of checks are stored, so that a record is checked once.

    The result depends only on the records that the receipts name, not on later records in the store.

    Args:
        workloads: the directory of kernels that extract wrote.
        receipts: receipts of the tuning of those kernels.
        frozen: a lock with the records; no device is used then, and nothing is checked.
        variant: variant in the lock, as ``model/precision/target``.

    Raises:
        InputError: a stage's file is missing or damaged.
        DeviceError: the device is lost.
        MachineError: the store cannot be read or written, or lacks records that the receipts name.
    """
    if frozen is not None:
        from tvmake.records.pick_locked import pick_locked
        from tvmake.records.store import open_store

        return pick_locked(tasks, open_store(request.store), frozen, variant, best)
    return _pick_measured(tasks, workloads, receipts, request, best)


def _pick_measured(
    tasks: Path, workloads: Path, receipts: Sequence[Path], request: PickBestRequest, best: Path
) -> BestSet:
    import sys

    from tvmake.artifact import stage_json
    from tvmake.artifact.module_files import load_module
    from tvmake.artifact.tasks import TaskList
    from tvmake.device.connect import connect
    from tvmake.device.rpc.serving import ending_servers
    from tvmake.records.best import BestSet
    from tvmake.records.store import RecordStore, records_root
    from tvmake.records.workload import GENERATION, workload
    from tvmake.targets.backends import device_kind
    from tvmake.targets.resolve import linker, tvm_target
    from tvmake.tune.context import tuning_context
    from tvmake.tune.receipts import Receipt, records_of_receipt
    from tvmake.tune.verify.check import Checker
    from tvmake.tune.verify.kernel_runner import kernel_runner

    where = f"targets.{request.target_name}"
    target = tvm_target(request.target, where)
    listed = stage_json.load(TaskList, tasks)
    context = tuning_context(target, connect(request.device_name, request.device).fingerprint(device_kind(target)))
    store = RecordStore(Path(request.store) if request.store else records_root())
    runner = kernel_runner(request.device_name, request.device, target, linker(request.target, where))

    by_workload = {receipt.workload: receipt for receipt in (stage_json.load(Receipt, path) for path in receipts)}
    unwanted = set(request.untuned)
    for name in sorted(unwanted.difference(*(task.names for task in listed.tasks))):
        print(f"warning: tuning.untuned: there is no kernel '{name}' here", file=sys.stderr)

    def pick(task: Task) -> BestKernel:
        if task.trivial:
            return _kernel(task, reason=task.trivial)
        if not unwanted.isdisjoint(task.names):
            return _kernel(task, reason="tuning.untuned names it")
        receipt = by_workload.get(task.workload)
        points = receipt.points if receipt else task.points
        kernel = workload(load_module(workloads / f"{task.workload}.json")["main"], target)
        checker = Checker(kernel, runner, points=points)
        stored, comparison = records_of_receipt(store, context, task.workload, receipt, points=points)
        return _pick(task, stored, comparison, store, context, checker)

    with ending_servers():
        kernels = tuple(pick(task) for task in listed.tasks)
    written = BestSet(target=listed.target, generation=GENERATION, device_class=context.device_class, kernels=kernels)
    stage_json.save(written, best)
    return written


def _pick(
    task: Task,
    stored: list[StoredRecord],
    comparison: Comparison | None,
    store: RecordStore,
    context: TuningContext,
    checker: Checker,
) -> BestKernel:
    from tvmake.records.preference import latency_ms, sort_by_preference
    from tvmake.tune.receipts import curve

    wrong = sum(record.outcome == "wrong_output" for record in stored)
    chosen: StoredRecord | None = None
    for record in sort_by_preference(stored, comparison):
        if wrong >= MOST_WRONG:
            break
        if record.verdict is None:
            record.verdict = checker.check(record.record)
            store.append(context, task.workload, [record.verdict])
        if record.verdict.right:
            chosen = record
            break
        wrong += 1
    # After the checks: a later run finds their verdicts in the store, and must produce the same figures.
    figures: dict[str, Any] = {"trials": len(stored), "curve": tuple(curve(stored))}
    if chosen is None:
        return _kernel(task, reason=_why_none(stored, wrong), **figures)
    return _kernel(task, record=chosen.record, latency_ms=latency_ms(chosen, comparison), **figures)


def _why_none(stored: list[StoredRecord], wrong: int) -> str:
    if not stored:
        return "nothing was measured"
    if wrong:
        return f"the outputs of its {wrong} fastest candidates are wrong"
    return f"none of its {len(stored)} candidates worked"


def _kernel(task: Task, **figures: Any) -> BestKernel:
    from tvmake.records.best import BestKernel

    return BestKernel(workload=task.workload, name=task.names[0], calls=task.calls, flops=task.flops, **figures)


def pick_best_request(job: JobContext) -> PickBestRequest:
    """The records that the variant's build may use."""
    return PickBestRequest(**job.target_fields, **job.device_fields, store=job.tuning.store, untuned=job.tuning.untuned)


STAGE = Stage(
    name="pick_best",
    summary="Choose the fastest record of each kernel with a correct output.",
    function=pick_best,
    inputs=(
        Input("tasks.json", "tasks"),
        Input(
            "workloads", "workloads", help="The kernels, from the extract stage.", is_directory=True, has_no_time=True
        ),
        Input(
            "{workload}.json",
            "receipts",
            lambda job: job.receipts(job.rounds, f"{job.model}/{job.precision}"),
            "Receipts of the kernels' tuning.",
            is_many=True,
            is_optional=True,
            round=lambda job: job.rounds,
        ),
        LOCK,
    ),
    outputs=(Output("best.json", paths.VARIANT, "best", "Best records to write (JSON).", has_parts=True),),
    logs=(Log("{model}/{precision}/{target}/pick_best.log"),),
    request_model=PickBestRequest,
    request=pick_best_request,
    exists=lambda job: job.is_tuned,
    is_goal=True,
    is_hermetic=True,
    memory_mb=1500,
    minutes=60,
    holds_weights=False,
    is_on_device=True,
    server="tuner",
)
