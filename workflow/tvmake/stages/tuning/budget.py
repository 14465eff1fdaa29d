"""Budget: spread the trials of all variants of a target over their kernels, each kernel once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.tuning import BudgetRequest, ModelBudget
from tvmake.stages.descriptor import Input, Log, Output, Stage

if TYPE_CHECKING:
    from tvmake.artifact.tasks import Budget
    from tvmake.stages.context import JobContext


def spread_trials(
    tasks: Sequence[Path], receipts: Sequence[Path], request: BudgetRequest, budget: Path, kernels: Path
) -> Budget:
    """Write ``budget`` (a Budget) and ``kernels``, a directory with every kernel in it.

    Args:
        tasks: TaskLists in the order of the variants' names, each beside its directory of workloads.
        receipts: receipts of the rounds before this one.

    Raises:
        InputError: a file is missing or damaged, or a pattern of ``tuning.kernels`` matches nothing.
    """
    import shutil

    from tvmake.artifact import stage_json
    from tvmake.artifact.tasks import Budget, TaskList
    from tvmake.storage.files import atomic_directory
    from tvmake.tune.budget import spread
    from tvmake.tune.receipts import Receipt

    names = sorted(request.variants)  # a request's JSON has no other order
    lists = {name: stage_json.load(TaskList, path) for name, path in zip(names, tasks, strict=True)}
    earlier = {receipt.workload: receipt for receipt in (stage_json.load(Receipt, path) for path in receipts)}
    shares, shared = spread(lists, request.variants, request.number / request.rounds, earlier)
    files = {
        task.workload: path.parent / "workloads" / f"{task.workload}.json"
        for path, listed in zip(tasks, lists.values(), strict=True)
        for task in listed.tasks
    }
    with atomic_directory(kernels) as directory:
        for workload in shares:
            shutil.copyfile(files[workload], directory / f"{workload}.json")
    written = Budget(target_name=request.target_name, number=request.number, kernels=shares, trials_shared=shared)
    stage_json.save(written, budget)
    return written


def budget_request(job: JobContext) -> BudgetRequest:
    """The trials of each tuned variant of the target."""
    variants = {
        name: ModelBudget(
            trials=variant.tuning.trials,
            trials_per_kernel=variant.tuning.trials_per_kernel,
            floor=variant.tuning.floor,
            kernels=variant.tuning.kernels,
        )
        for name, variant in _tuned_variants(job).items()
    }
    return BudgetRequest(target_name=job.target, number=int(job.number), rounds=job.rounds, variants=variants)


def _tuned_variants(job: JobContext) -> dict[str, JobContext]:
    """The target's tuned variants by ``model/precision``, in the order of the names."""
    variants = {f"{variant.model}/{variant.precision}": variant for variant in job.variants if variant.is_tuned}
    return dict(sorted(variants.items()))


STAGE = Stage(
    name="budget",
    summary="Spread the trials of a target's variants over their kernels.",
    function=spread_trials,
    inputs=(
        Input(
            "tasks.json",
            "tasks",
            lambda job: [variant.file("tasks.json") for variant in _tuned_variants(job).values()],
            is_many=True,
        ),
        Input(
            "{workload}.json",
            "receipts",
            lambda job: job.receipts(int(job.number) - 1),
            "Receipts of the previous round.",
            is_many=True,
            is_optional=True,
            is_of_earlier_round=True,
            round=lambda job: int(job.number) - 1,
        ),
    ),
    outputs=(
        Output("budget.json", paths.ROUND, "budget", "Budget to write (JSON)."),
        Output(
            "round/workloads",
            paths.ROUND,
            "kernels",
            "Directory of kernels to write.",
            is_directory=True,
            members=("workloads/{workload}.json",),
        ),
    ),
    logs=(Log("tuning/{target}/round{number}/budget.log"),),
    request_model=BudgetRequest,
    request=budget_request,
    exists=lambda job: job.is_tuned,
    subject=lambda arguments: f"{arguments['request'].target_name} round {arguments['request'].number}",
    memory_mb=600,
    minutes=10,
    holds_weights=False,
)
