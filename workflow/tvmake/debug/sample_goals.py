"""Goals as single samples are judged by, and goals that a package would meet."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tvmake.config.validation import Goals
from tvmake.validate.numerics import Comparison
from tvmake.validate.verdict import MissedGoal

AT_LEAST = ("cosine", "sqnr_db", "equal", "top1_agreement", "top5_agreement")
"""Goals that bound a figure from below; the others bound theirs from above."""


def of_samples(goals: Goals) -> Goals:
    """Goals less those of which samples without labels, run once, tell nothing."""
    return goals.model_copy(update=dict.fromkeys(("repeatable", "metrics", "top1", "top1_drop")))


def missed_by(expected: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray], goals: Goals) -> list[MissedGoal]:
    """The goals that one sample's outputs miss, in the order of those expected."""
    comparison = Comparison(of_samples(goals))
    comparison.add(expected, dict(zip(expected, outputs, strict=True)))
    return comparison.report().missed


def met_goals(variant: str, base: str, missed: Iterable[MissedGoal]) -> str:
    """The part of a config that has missed goals as a package meets them.

    Args:
        variant: ``model/precision/target``.
        base: that of its precision.
        missed: the goals that the package misses.
    """
    bounds: dict[str, float | None] = {}
    for one in missed:
        if one.value is None or one.goal in ("allclose", "finite"):
            bounds |= {"rtol": None, "atol": None}
        elif one.goal in AT_LEAST:
            bounds[one.goal] = min(bounds.get(one.goal) or math.inf, _rounded(one.value, math.floor))
        else:
            bounds[one.goal] = max(bounds.get(one.goal) or 0.0, _rounded(one.value, math.ceil))
    written = ", ".join(f"{goal}: {'null' if bound is None else format(bound, 'g')}" for goal, bound in bounds.items())
    model = variant.partition("/")[0]
    return f"`models: {{{model}: {{goals: {{per_precision: {{{base}: {{{written}}}}}}}}}}}`"


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    """To two digits, on the side where the bound holds."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0
    return towards(value / unit) * unit
