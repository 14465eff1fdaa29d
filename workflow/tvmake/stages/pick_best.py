"""Pick best: for each kernel of a variant the fastest record whose output is right."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module
from tvmake.artifact.tasks import Task, TaskList
from tvmake.config.requests.tuning import PickBestRequest
from tvmake.device.connect import connect
from tvmake.device.serving import ending_servers
from tvmake.records.record import Place
from tvmake.records.store import RecordStore, StoredRecord, records_root
from tvmake.target.resolve import linker, tvm_target
from tvmake.tune.best import BestKernel, BestSet
from tvmake.tune.check import Checker
from tvmake.tune.kernel_runner import kernel_runner
from tvmake.tune.measuring.kernel import device_kind
from tvmake.tune.place import place
from tvmake.tune.receipt import Receipt, curve
from tvmake.tune.told import told_records
from tvmake.tune.workload import GENERATION, workload

MOST_WRONG = 20
"""Records of a kernel to find wrong before it counts as untuned: so many point to the kernel, not to the schedules."""


def pick_best(tasks: Path, workloads: Path, receipts: Sequence[Path], request: PickBestRequest, best: Path) -> BestSet:
    """Write ``best`` (a BestSet). What a check finds is kept in the store, so that a record is checked once.

    It follows from the records that the receipts tell of. What the store got since does not count.

    Args:
        workloads: the directory of kernels that extract wrote.
        receipts: what the tuning of those kernels left.

    Raises:
        InputError: a stage's file is missing or damaged.
        DeviceError: the device is lost.
        MachineError: the store cannot be read or written, or lacks records that the receipts tell of.
    """
    where = f"targets.{request.target_name}"
    target = tvm_target(request.target, where)
    listed = stage_json.load(TaskList, tasks)
    own = place(target, connect(request.device_name, request.device).fingerprint(device_kind(target)))
    store = RecordStore(Path(request.store) if request.store else records_root())
    runner = kernel_runner(request.device_name, request.device, target, linker(request.target, where))

    told = {receipt.workload: receipt for receipt in (stage_json.load(Receipt, path) for path in receipts)}
    unwanted = set(request.untuned)
    for name in sorted(unwanted.difference(*(task.names for task in listed.tasks))):
        print(f"warning: tuning.untuned: no kernel here is called '{name}'", file=sys.stderr)

    def pick(task: Task) -> BestKernel:
        if task.trivial:
            return _kernel(task, reason=task.trivial)
        if not unwanted.isdisjoint(task.names):
            return _kernel(task, reason="tuning.untuned names it")
        checker = Checker(workload(load_module(workloads / f"{task.workload}.json")["main"], target), runner)
        return _pick(task, told_records(store, own, task.workload, told.get(task.workload)), store, own, checker)

    with ending_servers():
        kernels = tuple(pick(task) for task in listed.tasks)
    written = BestSet(target=listed.target, generation=GENERATION, device_class=own.device_class, kernels=kernels)
    stage_json.save(written, best)
    return written


def _pick(task: Task, stored: list[StoredRecord], store: RecordStore, own: Place, checker: Checker) -> BestKernel:
    usable = sorted((one for one in stored if one.latency_ms is not None), key=lambda one: (one.latency_ms, one.digest))
    wrong = sum(one.outcome == "wrong_output" for one in stored)
    chosen: StoredRecord | None = None
    for one in usable:
        if wrong >= MOST_WRONG:
            break
        if one.verdict is None:
            one.verdict = checker.check(one.record)
            store.append(own, task.workload, [one.verdict])
        if one.verdict.right:
            chosen = one
            break
        wrong += 1
    # After the checks: whoever picks again finds their verdicts in the store, and must come to the same.
    figures = {"trials": len(stored), "curve": tuple(curve(stored))}
    if chosen is None:
        return _kernel(task, reason=_why_none(stored, wrong), **figures)
    return _kernel(task, record=chosen.record, latency_ms=chosen.latency_ms, **figures)


def _why_none(stored: list[StoredRecord], wrong: int) -> str:
    if not stored:
        return "nothing was measured"
    if wrong:
        return f"the outputs of its {wrong} fastest candidates are wrong"
    return f"none of its {len(stored)} candidates worked"


def _kernel(task: Task, **found: object) -> BestKernel:
    return BestKernel(workload=task.workload, name=task.names[0], calls=task.calls, flops=task.flops, **found)
