"""Compare figures with goals: the missed goals, and the limits of the evidence."""

from pydantic import BaseModel, ConfigDict

from tvmake.config.validation import Goals
from tvmake.storage.documents import FailsFast
from tvmake.validate.classification import ClassificationFigures
from tvmake.validate.figures import OutputFigures

SENSITIVE_DB = 20.0
"""How far the outputs' change between inputs must exceed the error: an error of a tenth of the change."""
LEAST_CHANGE = 1e-3
"""Change between inputs, as a share of the outputs' RMS, below which a reference hardly depends on its input."""


class MissedGoal(FailsFast, BaseModel):
    """A bound that was missed. ``output`` and ``value`` are None if they do not apply."""

    model_config = ConfigDict(extra="forbid")

    goal: str
    output: str | None = None
    bound: float | None = None
    value: float | None = None
    reason: str


def missed_goals(
    goals: Goals,
    outputs: list[OutputFigures],
    classification: ClassificationFigures | None,
    repeatable: bool | None,
    samples: int,
) -> list[MissedGoal]:
    """Every goal that the figures miss, outputs in order, then classification, then repeatability."""
    missed = [goal for output in outputs for goal in _output_goals(goals, output, samples)]
    missed += _classification_goals(goals, classification)
    if goals.repeatable and repeatable is False:
        reason = "the same input gave different outputs in two runs"
        missed.append(MissedGoal(goal="repeatable", bound=1.0, value=0.0, reason=reason))
    return missed


def _output_goals(goals: Goals, figures: OutputFigures, samples: int) -> list[MissedGoal]:
    missed = []

    def miss(goal: str, bound: float | None, value: float | None, reason: str) -> None:
        missed.append(MissedGoal(goal=goal, output=figures.name, bound=bound, value=value, reason=reason))

    if is_discrete(figures):
        least = goals.equal
        if least is not None and figures.is_within_step and goals.equal_within_step is not None:
            least = min(least, goals.equal_within_step)
        if least is not None and figures.equal < least:
            miss("equal", least, figures.equal, f"{figures.equal:.4%} of the elements are equal")
        return missed
    if 0 < figures.elements == figures.nonfinite_reference.nan:
        miss("finite", 0, figures.elements, "all of the original's values are NaN, so nothing can be compared")
    if figures.nonfinite_mismatches:
        miss("finite", 0, figures.nonfinite_mismatches, _nonfinite_reason(figures))
    if figures.beyond_tolerance:
        reason = (
            f"{figures.beyond_tolerance} of {figures.elements} elements are beyond atol {goals.atol or 0:g} + "
            f"rtol {goals.rtol or 0:g}·|reference|, the worst {figures.worst_excess:.3g} times"
        )
        miss("allclose", 1.0, figures.worst_excess, reason)
    if goals.max_abs is not None and figures.max_abs > goals.max_abs:
        miss("max_abs", goals.max_abs, figures.max_abs, f"an element is off by {figures.max_abs:.3g}")
    if goals.max_abs_rms is not None and figures.max_abs_rms > goals.max_abs_rms:
        reason = f"an element is off by {figures.max_abs_rms:.3g} of the output's RMS"
        miss("max_abs_rms", goals.max_abs_rms, figures.max_abs_rms, reason)
    if goals.max_rel is not None and figures.max_rel > goals.max_rel:
        miss("max_rel", goals.max_rel, figures.max_rel, f"an element is off by {figures.max_rel:.3%}")
    if goals.cosine is not None and figures.worst_cosine < goals.cosine:
        which = "the only sample" if samples == 1 else "the least similar sample"
        reason = f"{which} has a cosine of {figures.worst_cosine:.6f}"
        miss("cosine", goals.cosine, figures.worst_cosine, reason)
    if goals.sqnr_db is not None and figures.worst_sqnr_db < goals.sqnr_db:
        worst = f"sample {figures.worst_sample} has {figures.worst_sqnr_db:.1f} dB, all together {figures.sqnr_db:.1f}"
        reason = f"{figures.sqnr_db:.1f} dB" if samples == 1 else worst
        miss("sqnr_db", goals.sqnr_db, figures.worst_sqnr_db, reason)
    return missed


def is_discrete(figures: OutputFigures) -> bool:
    """Whether the reference's output is integer or boolean, and is judged by equality."""
    return figures.dtype.startswith(("int", "uint", "bool"))


def _nonfinite_reason(figures: OutputFigures) -> str:
    reference, got = figures.nonfinite_reference, figures.nonfinite_got
    return (
        f"{figures.nonfinite_mismatches} elements are NaN or infinite on one side only "
        f"(package: {got.nan} NaN, {got.inf} Inf; reference: {reference.nan} NaN, {reference.inf} Inf)"
    )


def _classification_goals(goals: Goals, figures: ClassificationFigures | None) -> list[MissedGoal]:
    missed = []
    at_least = {
        "top1_agreement": figures.top1_agreement if figures else None,
        "top5_agreement": figures.top5_agreement if figures else None,
        "top1": figures.top1 if figures else None,
    }
    for goal, value in at_least.items():
        bound = getattr(goals, goal)
        if bound is None:
            continue
        if value is None:
            missed.append(MissedGoal(goal=goal, bound=bound, reason=_unmeasurable(goal, figures)))
        elif value < bound:
            missed.append(MissedGoal(goal=goal, bound=bound, value=value, reason=f"{goal} is {value:.4f}"))
    if goals.top1_drop is not None:
        drop = figures.top1_drop if figures else None
        if figures is None or drop is None:
            reason = _unmeasurable("top1_drop", figures)
            missed.append(MissedGoal(goal="top1_drop", bound=goals.top1_drop, reason=reason))
        # The slack is for the rounding of the difference of two shares: 0.98 − 0.975 is above 0.005 in float64.
        elif drop > goals.top1_drop + 1e-9:
            reason = f"accuracy falls from {figures.reference_top1:.4f} to {figures.top1:.4f}"
            missed.append(MissedGoal(goal="top1_drop", bound=goals.top1_drop, value=drop, reason=reason))
    return missed


def _unmeasurable(goal: str, figures: ClassificationFigures | None) -> str:
    if figures is None:
        return f"{goal} needs an output [batch, classes], this model has none"
    if goal == "top5_agreement":
        return f"{goal} needs more than five classes, this model has {figures.classes}"
    return f"{goal} needs labels, the samples have none"


def warnings(outputs: list[OutputFigures], classification: ClassificationFigures | None) -> list[str]:
    """Reasons why the figures are weaker evidence than they seem."""
    lines = []
    for figures in outputs:
        if is_discrete(figures):
            continue
        if figures.reference_change is None:
            lines.append(f"{figures.name}: only one sample, so it is unknown whether the output depends on the input")
        elif figures.reference_change < LEAST_CHANGE:
            lines.append(
                f"{figures.name}: insensitive: different inputs change the reference by only "
                f"{figures.reference_change:.2g} of its RMS, so agreement proves little"
            )
        elif figures.sensitivity_db is not None and figures.sensitivity_db < SENSITIVE_DB:
            lines.append(
                f"{figures.name}: insensitive: the error is only {figures.sensitivity_db:.1f} dB below the reference's "
                "change between different inputs, so agreement proves little"
            )
        if figures.nonfinite_reference.nan or figures.nonfinite_reference.inf:
            count = figures.nonfinite_reference
            lines.append(f"{figures.name}: the reference itself has {count.nan} NaN and {count.inf} Inf elements")
        if figures.elements == 0:
            lines.append(f"{figures.name}: has no elements")
    if classification and classification.looks_like_softmax:
        lines.append(
            f"{classification.output}: looks like a softmax; errors of the logits before it may be hidden where it "
            "saturates"
        )
    return lines
