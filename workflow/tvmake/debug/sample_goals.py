"""Goals for single samples, and goals that a package would meet."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tvmake.config.validation import Goals
from tvmake.validate.numerics import Comparison
from tvmake.validate.verdict import MissedGoal

AT_LEAST = ("cosine", "sqnr_db", "equal", "top1_agreement", "top5_agreement")
"""Goals with lower bounds; the others have upper bounds."""


def of_samples(goals: Goals) -> Goals:
    """Goals without those that cannot be judged from samples without labels that are run once."""
    return goals.model_copy(update=dict.fromkeys(("repeatable", "metrics", "top1", "top1_drop")))


def missed_goals(expected: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray], goals: Goals) -> list[MissedGoal]:
    """The goals that one sample's outputs miss, in the order of the expected outputs."""
    comparison = Comparison(of_samples(goals))
    comparison.add(expected, dict(zip(expected, outputs, strict=True)))
    return comparison.report().missed


def met_goals(variant: str, base: str, missed: Iterable[MissedGoal]) -> str:
    """The config for the missed goals with bounds that the package meets.

    Args:
        variant: ``model/precision/target``.
        base: the base of its precision.
        missed: the goals that the package misses.
    """
    bounds: dict[str, float | None] = {}
    for goal in missed:
        if goal.value is None or goal.goal in ("allclose", "finite"):
            bounds |= {"rtol": None, "atol": None}
        elif goal.goal in AT_LEAST:
            bounds[goal.goal] = min(bounds.get(goal.goal) or math.inf, _round_bound(goal.value, math.floor))
        else:
            bounds[goal.goal] = max(bounds.get(goal.goal) or 0.0, _round_bound(goal.value, math.ceil))
    bounds_text = ", ".join(
        f"{goal}: {'null' if bound is None else format(bound, 'g')}" for goal, bound in bounds.items()
    )
    model = variant.partition("/")[0]
    return f"`models: {{{model}: {{goals: {{per_precision: {{{base}: {{{bounds_text}}}}}}}}}}}`"


def _round_bound(value: float, towards: Callable[[float], int]) -> float:
    """Round to two digits, in the direction that keeps the bound valid."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0
    return towards(value / unit) * unit
