"""Distribute trials over kernels: first by their work, then to the kernels that gain most from trials."""

import fnmatch
from collections.abc import Mapping, Sequence

from tvmake.artifact.size_points import SizePoint, merge_points
from tvmake.artifact.tasks import KernelBudget, Task, TaskList
from tvmake.config.requests.tuning import ModelBudget
from tvmake.errors import InputError
from tvmake.tune.receipts import Receipt

BACKWARD = 0.2
"""Weight of the past's slope against the guess at the future: alpha of Ansor's task scheduler (Zheng et al.,
OSDI 2020, section 6.2; ``gradient`` strategy of tvm.auto_scheduler.TaskScheduler)."""

SIMILAR = 2.0
"""Largest speed-up expected over a similar kernel: Ansor's beta."""


def spread(
    variants: Mapping[str, TaskList],
    budgets: Mapping[str, ModelBudget],
    portion: float,
    receipts: Mapping[str, Receipt],
) -> tuple[dict[str, KernelBudget], int]:
    """Return the trials that every kernel should have after ``portion`` of the budgets.

    Each variant distributes its own budget. A kernel of several variants gets the largest of its shares, and is measured
    once, at the sizes of all of them.

    Args:
        variants: kernels by ``model/precision``.
        portion: fraction of the budgets to spend, 0..1.
        receipts: state of each workload's search; empty at first. Kernels without further candidates get no more trials.

    Returns:
        Budgets by workload, the largest first, and the trials saved by sharing.

    Raises:
        InputError: a variant has none of the kernels that its budget names.
    """
    wanted: dict[str, dict[str, int]] = {}
    names: dict[str, str] = {}
    points: dict[str, list[SizePoint]] = {}
    for variant, tasks in variants.items():
        kernels = {task.workload: task for task in _tunable(variant, tasks, budgets[variant].kernels)}
        for workload, trials in _spread_one(kernels, budgets[variant], portion, receipts).items():
            wanted.setdefault(workload, {})[variant] = trials
            names.setdefault(workload, kernels[workload].names[0])
            points.setdefault(workload, []).extend(kernels[workload].points)
    kernel_budgets = {
        workload: KernelBudget(
            name=names[workload],
            trials=max(trials_by_variant.values()),
            users=sorted(trials_by_variant),
            points=merge_points(points[workload]),
        )
        for workload, trials_by_variant in wanted.items()
    }
    saved = sum(
        sum(trials_by_variant.values()) - max(trials_by_variant.values()) for trials_by_variant in wanted.values()
    )
    return dict(sorted(kernel_budgets.items(), key=lambda item: (-item[1].trials, item[0]))), saved


def _tunable(variant: str, tasks: TaskList, patterns: Sequence[str]) -> list[Task]:
    """Return the kernels worth tuning that match the patterns, if there are any."""
    tunable = [task for task in tasks.tasks if task.trivial is None]
    if not patterns:
        return tunable
    names = sorted({name for task in tunable for name in task.names})
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            known = ", ".join(names) or "none"
            raise InputError("tuning.kernels", f"{variant} has no kernel '{pattern}' to tune", f"it has: {known}")
    return [task for task in tunable if any(fnmatch.filter(task.names, pattern) for pattern in patterns)]


def _spread_one(
    kernels: Mapping[str, Task], budget: ModelBudget, portion: float, receipts: Mapping[str, Receipt]
) -> dict[str, int]:
    if not kernels:
        return {}
    if budget.trials_per_kernel is not None:
        return dict.fromkeys(kernels, max(1, round(budget.trials_per_kernel * portion)))
    # The budget takes precedence over the floor.
    least = max(1, min(budget.floor, budget.trials // len(kernels)))
    exhausted = {key: max(1, receipts[key].trials) for key in kernels if key in receipts and receipts[key].is_exhausted}
    active = {key: kernel for key, kernel in kernels.items() if key not in exhausted}
    spent = {key: receipts[key].trials if key in receipts else 0 for key in active}
    start = {key: max(least, trials) for key, trials in spent.items()}
    free = round(budget.trials * portion) - sum(exhausted.values()) - sum(start.values())
    if free <= 0 or not active:
        return exhausted | start
    known = all(key in receipts and receipts[key].best_ms for key in active)
    weights = (
        _gains(active, receipts) if known else {key: kernel.calls * kernel.flops for key, kernel in active.items()}
    )
    total = sum(weights.values())
    more = {key: int(free * (weights[key] / total if total else 1 / len(active))) for key in active}
    # The remainder from rounding goes to the kernels with the largest gain.
    for key in sorted(active, key=lambda key: (-weights[key], key))[: free - sum(more.values())]:
        more[key] += 1
    return exhausted | {key: start[key] + more[key] for key in active}


def _gains(kernels: Mapping[str, Task], receipts: Mapping[str, Receipt]) -> dict[str, float]:
    """Estimate, with Ansor's gradient, the seconds that a trial saves for the model."""
    fastest = max((kernel.flops / receipts[key].best_ms for key, kernel in kernels.items()), default=1.0)  # type: ignore[operator]
    gains = {}
    for key, kernel in kernels.items():
        receipt = receipts[key]
        best, trials = receipt.best_ms or 0.0, max(1, receipt.trials)
        window = max(1, trials // 4)
        before = receipt.best_at(trials - window) or best
        backward = (before - best) / window
        # Time at a multiple of the best measured rate; the gain is at most the kernel's time.
        reachable = best - kernel.flops / (SIMILAR * fastest)
        forward = max(0.0, min(best, reachable)) / trials
        gains[key] = kernel.calls * (BACKWARD * backward + (1 - BACKWARD) * forward)
    return gains
