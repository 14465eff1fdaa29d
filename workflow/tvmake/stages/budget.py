"""Budget: spread the trials of all variants of a target over their kernels, each kernel once."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import atomic_directory
from tvmake.artifact.tasks import Budget, TaskList
from tvmake.config.requests.tuning import BudgetRequest
from tvmake.tune.budget import spread
from tvmake.tune.receipt import Receipt


def budget(
    tasks: Sequence[Path], receipts: Sequence[Path], request: BudgetRequest, destination: Path, workloads: Path
) -> Budget:
    """Write ``destination`` (a Budget) and ``workloads``, a directory with every kernel it names.

    Args:
        tasks: TaskLists in the order of ``request.variants``, each beside its directory of workloads.
        receipts: of the passes before this one.

    Raises:
        InputError: a file is missing or damaged.
    """
    lists = {name: stage_json.load(TaskList, path) for name, path in zip(request.variants, tasks, strict=True)}
    known = {receipt.workload: receipt for receipt in (stage_json.load(Receipt, path) for path in receipts)}
    kernels, shared = spread(lists, request.variants, request.number / request.passes, known)
    places = {
        task.workload: path.parent / "workloads" / f"{task.workload}.json"
        for path, listed in zip(tasks, lists.values(), strict=True)
        for task in listed.tasks
    }
    with atomic_directory(workloads) as directory:
        for workload in kernels:
            shutil.copyfile(places[workload], directory / f"{workload}.json")
    written = Budget(target_name=request.target_name, number=request.number, kernels=kernels, trials_shared=shared)
    stage_json.save(written, destination)
    return written
