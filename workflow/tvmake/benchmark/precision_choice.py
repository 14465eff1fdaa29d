"""precision.json: which layers of a variant have which precision, all that was measured for it, and why."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.quantize.precision import LayerAssignment, LayerPrecision
from tvmake.storage.documents import FailsFast
from tvmake.validate.verdict import MissedGoal

TIE = 0.02
"""Latencies within this share of the fastest count as equal; the most accurate of them is chosen."""


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class ChosenLayer(_File):
    """A convolution or matmul, with the element-wise operators after it."""

    name: str
    """The variable of its result."""
    operator: str
    part: int
    """Layers of the same part have the same precision, as far as they can."""
    able: list[LayerPrecision]
    """The precisions that it supports."""
    why_not: str = ""
    """Why it has fewer precisions than are chosen among."""


class Effect(_File):
    """The effect of one part of the network in a precision."""

    part: int
    precision: LayerPrecision
    noise: float | None
    """Power of the change at the output, as a share of the output's power."""
    gain_ms: float | None
    """How much faster the network is, conversions to and from the part included."""
    problem: str = ""
    """The reason without figures."""


class MeasuredAssignment(_File):
    """A network that was built, and run on the device."""

    name: str
    assignment: LayerAssignment
    latency_ms: float | None = None
    """The minimum of all samples; None without a measurement."""
    rounds_ms: list[float] = []
    """The minimum sample of each round, interleaved with the other candidates."""
    noise: float | None = None
    """Power of the error at the output, as a share of the output's power, over all samples."""
    sqnr_db: float | None = None
    """The same in dB, as validation reports it: of the worst output."""
    missed: list[MissedGoal] = []
    predicted_ms: float | None = None
    predicted_noise: float | None = None
    problem: str = ""
    """Why it cannot be built or run."""
    is_on_front: bool = False
    """Whether no other one is both faster and more accurate."""
    reason: str = ""
    """Why it was chosen, or not."""

    @property
    def is_measured(self) -> bool:
        """Whether there are figures to choose by."""
        return self.latency_ms is not None and self.noise is not None and not self.problem

    @property
    def excess(self) -> float:
        """By how much it misses its goals: the sum of the misses, each as a share of its bound."""
        return sum(_excess(goal) for goal in self.missed)


class PrecisionChoice(_File):
    """The choice, and its basis."""

    schema_version: Literal[1] = 1
    assignment: LayerAssignment
    """The name of the chosen candidate."""
    chosen: str
    """The name of the candidate."""
    because: str
    among: list[LayerPrecision]
    """The most accurate first."""
    layers: list[ChosenLayer]
    effects: list[Effect] = []
    candidates: list[MeasuredAssignment] = []
    """The fastest first; those without figures last."""
    data: Literal["dataset", "random", ""] = ""
    """The data for noise and goals."""
    samples: int = 0
    missed: list[MissedGoal] = []
    """The goals that even the chosen one misses."""
    warnings: list[str] = []
    fingerprint: Fingerprint | None = None
    """The device of the latencies; None without measurements."""

    @property
    def mix(self) -> str:
        """How many layers have which precision: ``3 int8, 1 float32``."""
        return mix(self.assignment, len(self.layers))

    @property
    def summary(self) -> str:
        """The choice in one line: ``3 int8, 1 float32: 0.31 ms, 38.2 dB; fastest that meets the goals``."""
        choice = next((candidate for candidate in self.candidates if candidate.name == self.chosen), None)
        figures = ""
        if choice is not None and choice.latency_ms is not None and choice.sqnr_db is not None:
            figures = f": {choice.latency_ms:.3g} ms, {choice.sqnr_db:.1f} dB"
        return f"{self.mix}{figures}; {self.because}"


def mix(assignment: LayerAssignment, layers: int) -> str:
    """How many layers have which precision; of a network that has one precision as a whole, its name."""
    if assignment.uniform is not None:
        return f"{assignment.uniform} throughout"
    counted = Counter(assignment.layers)
    return ", ".join(f"{count} {precision}" for precision, count in counted.most_common()) or f"{layers} layers"


def choose(candidates: Sequence[MeasuredAssignment]) -> tuple[int, str]:
    """The index of the best candidate, and the reason: the fastest that meets the goals, and the most accurate of equally fast ones; if
    none meets them, the nearest.

    Raises:
        ValueError: no candidate was measured.
    """
    able = [number for number, candidate in enumerate(candidates) if candidate.is_measured]
    meeting = [number for number in able if not candidates[number].missed]
    if not able:
        raise ValueError("no candidate was measured")
    if not meeting:
        nearest = min(able, key=lambda number: (candidates[number].excess, _order(candidates[number])))
        missed = "; ".join(missed_goal_text(goal) for goal in candidates[nearest].missed)
        return nearest, f"none meets the goals, and this one misses them least: {missed}"
    fastest = min(meeting, key=lambda number: candidates[number].latency_ms or 0.0)
    limit = (1 + TIE) * (candidates[fastest].latency_ms or 0.0)
    chosen = min(
        (number for number in meeting if (candidates[number].latency_ms or 0.0) <= limit),
        key=lambda number: _order(candidates[number]),
    )
    if chosen == fastest:
        return chosen, "the fastest that meets the goals"
    return (
        chosen,
        f"as fast as '{candidates[fastest].name}' within {TIE:.0%}, the fastest that meets the goals, and more accurate",
    )


def explain_choices(candidates: Sequence[MeasuredAssignment], chosen: int, because: str) -> list[MeasuredAssignment]:
    """The candidates with their membership in the front and their reasons, the fastest first."""
    best = candidates[chosen]
    rows = []
    for number, candidate in enumerate(candidates):
        better = _dominating(candidate, candidates)
        if number == chosen:
            reason = because
        elif not candidate.is_measured:
            reason = candidate.problem or "not measured"
        elif candidate.missed:
            reason = f"misses {'; '.join(missed_goal_text(goal) for goal in candidate.missed)}"
        else:
            times = (candidate.latency_ms or 0.0) / (best.latency_ms or 1.0)
            if times > 1 + TIE:
                reason = f"takes {times:.2f} × as long as the chosen candidate"
            else:
                reason = "as fast as the chosen one, and less accurate"
            if better is not None:
                reason += f"; '{better.name}' is faster and more accurate"
        rows.append(
            candidate.model_copy(update={"is_on_front": candidate.is_measured and better is None, "reason": reason})
        )
    return sorted(rows, key=lambda row: (not row.is_measured, row.latency_ms or math.inf, row.name))


def missed_goal_text(goal: MissedGoal) -> str:
    """A missed goal with its bound, in a few words."""
    bound = "" if goal.bound is None else f" (goal {goal.bound:g})"
    return f"{goal.goal}{bound}: {goal.reason}"


def _order(candidate: MeasuredAssignment) -> tuple[float, float, str]:
    return candidate.noise or 0.0, candidate.latency_ms or 0.0, candidate.name


def _dominating(candidate: MeasuredAssignment, candidates: Sequence[MeasuredAssignment]) -> MeasuredAssignment | None:
    """A candidate that is faster and at least as accurate, or as fast and more accurate; the fastest of them."""

    def figures(measured: MeasuredAssignment) -> tuple[float, float]:
        return measured.latency_ms or 0.0, measured.noise or 0.0

    latency_ms, noise = figures(candidate)
    better = [
        measured
        for measured in candidates
        if measured.is_measured
        and figures(measured) != (latency_ms, noise)
        and (measured.latency_ms or 0.0) <= latency_ms
        and (measured.noise or 0.0) <= noise
    ]
    return min(better, key=figures, default=None) if candidate.is_measured else None


def _excess(goal: MissedGoal) -> float:
    if goal.value is None or goal.bound is None:
        return 1.0
    return abs(goal.value - goal.bound) / max(abs(goal.bound), 1e-9)
