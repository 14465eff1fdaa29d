"""A run that needs no TVM: files as a tuned and an untuned variant would leave them, and their lock."""

import shutil
from pathlib import Path
from typing import Any

from tests.provenance.examples import make_package
from tests.records.examples import CONTEXT, record
from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Task, TaskList
from tvmake.config.reading.load import check
from tvmake.lock.document import write_lock
from tvmake.lock.make import lock_run
from tvmake.plan.plan import Plan
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.record import Record
from tvmake.records.store import RecordStore
from tvmake.storage.files import write_json, write_text

ROOT = Path(__file__).resolve().parents[2]

CONFIG: dict[str, Any] = {
    "models": {"digits": {"source": "digits.onnx", "dataset": {"path": "digits-test.npz"}}},
    "targets": {
        "cpu": {"kind": "llvm", "mcpu": "native"},
        "tuned": {"kind": "llvm", "mcpu": "native", "tuning": {"trials_per_kernel": 2}},
    },
}

WORKLOADS = ("c" * 64, "d" * 64)
"""The kernels of the tuned variant; the second has no record."""

BEST = record(1, ms=0.5)


def plan_of(config: dict[str, Any] | None = None) -> Plan:
    """The plan of a config."""
    return Plan(check(config or CONFIG, {}))


def make_run(directory: Path, library: bytes, best: Record = BEST) -> Plan:
    """Write the results of a run below a directory, which has to be the working directory."""
    for name in ("digits.onnx", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, directory / name)
    plan = plan_of()
    model = directory / "results" / "digits"
    for name in ("model.json", "source.json", "signature.json", "float32/module.json", "float32/signature.json"):
        write_json(model / name, {"inputs": [name], "outputs": []})
    for name in ("model.params", "float32/module.params"):
        write_text(model / name, name)
    for target in ("cpu", "tuned"):
        make_package(model / "float32" / target / "package.tar", library, ("digits", "float32", target))
        write_text(model / "float32" / target / "sources" / "lib0.ll", "; code")
    tuned = model / "float32" / "tuned"
    stage_json.save(tasks(), tuned / "tasks.json")
    for workload in WORKLOADS:
        write_json(tuned / "workloads" / f"{workload}.json", {"kernel": workload})
    stage_json.save(best_set(best), tuned / "best.json")
    return plan


def tasks() -> TaskList:
    """The kernels of the tuned variant."""
    return TaskList(
        target=CONTEXT.target,
        generation=CONTEXT.generation,
        tasks=[
            Task(workload=WORKLOADS[0], names=["conv"], calls=2, flops=1e6),
            Task(workload=WORKLOADS[1], names=["reshape"], calls=1, flops=0.0, trivial="moves data only"),
        ],
    )


def best_set(best: Record) -> BestSet:
    """What pick_best had made of them."""
    conv, reshape = tasks().tasks
    kernels = (
        BestKernel(
            workload=conv.workload, name="conv", calls=2, flops=1e6, record=best, latency_ms=0.5, trials=2,
            curve=((1, 1.0), (2, 0.5)),
        ),
        BestKernel(workload=reshape.workload, name="reshape", calls=1, flops=0.0, reason=reshape.trivial),
    )  # fmt: skip
    return BestSet(
        target=CONTEXT.target, generation=CONTEXT.generation, device_class=CONTEXT.device_class, kernels=kernels
    )


def fill(store: RecordStore, *records: Record) -> None:
    """Put records of the tuned kernel into a store."""
    store.append(CONTEXT, WORKLOADS[0], list(records))


def lock(plan: Plan, path: Path = Path("run.lock")) -> Path:
    """Write the run's lock."""
    write_lock(lock_run(plan), path)
    return path
