"""Compare a package's outputs with the reference's, sample by sample, and judge them by goals."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tvmake.config.validation import Goals
from tvmake.storage.documents import FailsFast
from tvmake.validate.classification import Classification, ClassificationFigures, is_classification
from tvmake.validate.continuation import ContinuationFigures, ContinuedTokens
from tvmake.validate.figures import OutputComparison, OutputFigures
from tvmake.validate.metrics import MetricFigure, missed_metrics
from tvmake.validate.step_errors import StepErrors, describe_growth
from tvmake.validate.verdict import MissedGoal, missed_goals, warnings

Outputs = Mapping[str, np.ndarray]


class OverallFigures(FailsFast, BaseModel):
    """The worst figure of any output; ``mean_abs`` and ``mean_rel`` are the largest mean of any output."""

    model_config = ConfigDict(extra="forbid")

    max_abs: float
    max_abs_rms: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    cosine: float
    sqnr_db: float
    equal: float
    nonfinite_mismatches: int


class NumericsReport(FailsFast, BaseModel):
    """The result of a comparison. ``passed`` is true exactly if ``missed`` is empty.

    ``repeatable`` is None if no sample was run twice. ``overall`` is None if no output could be compared.
    """

    model_config = ConfigDict(extra="forbid")

    passed: bool
    missed: list[MissedGoal]
    warnings: list[str]
    samples: int
    goals: Goals
    overall: OverallFigures | None
    outputs: list[OutputFigures]
    classification: ClassificationFigures | None
    repeatable: bool | None
    metrics: dict[str, MetricFigure] = {}
    """Users' metrics, by name."""
    step_sqnr_db: list[float] = Field(default_factory=list, exclude_if=lambda figures: not figures)
    """With states: the signal-to-noise ratio of each step over all sequences, of the worst output."""

    continuation: ContinuationFigures | None = Field(default=None, exclude_if=lambda figures: figures is None)
    """Of a language model: how many tokens after a prompt are the same."""

    @property
    def sqnr_db(self) -> float:
        """The lowest signal-to-noise ratio of any output, in dB; NaN when no output could be compared."""
        return self.overall.sqnr_db if self.overall else math.nan


class Comparison:
    """Compares samples one by one; stores sums, not samples.

    Outputs are keyed by their names in the source model, in the order of the signature. Shapes must be equal,
    dtypes may differ (a float16 package against a float32 reference).

    Args:
        steps: samples in a sequence of a package with states, 0 if all are one; None without states.
        continued: compares the tokens that a language model continues a prompt with.
    """

    def __init__(self, goals: Goals, steps: int | None = None, continued: ContinuedTokens | None = None):
        self.goals = goals
        self.samples = 0
        self._outputs: dict[str, OutputComparison] = {}
        self._classification: Classification | None = None
        self._repeatable: bool | None = None
        self._structural: dict[str, MissedGoal] = {}
        self._metrics: dict[str, MetricFigure] = {}
        self._steps = None if steps is None else StepErrors(steps)
        self._continued = continued

    def add(self, reference: Outputs, got: Outputs, labels: np.ndarray | None = None) -> None:
        """Compare one sample's outputs; ``labels`` are class indices [batch], for accuracy."""
        self.samples += 1
        if self._steps is not None:
            self._steps.add(reference, got)
        if self._continued is not None:
            self._continued.add(reference, got)
        for name, expected in reference.items():
            expected = np.asarray(expected)
            if name not in got:
                self._structural.setdefault(name, _structural(name, "the package does not return this output"))
                continue
            actual = np.asarray(got[name])
            if actual.shape != expected.shape:
                problem = f"shape {list(actual.shape)}, the reference has {list(expected.shape)}"
                self._structural.setdefault(name, _structural(name, problem))
                continue
            self._outputs.setdefault(name, OutputComparison(name, self.goals)).add(expected, actual)
            self._classify(name, expected, actual, labels)

    def add_repeat(self, first: Outputs, second: Outputs) -> None:
        """Add the outputs of two runs on the same input, which must be bit-identical (NaN equals NaN)."""
        same = first.keys() == second.keys() and all(_identical(first[name], second[name]) for name in first)
        self._repeatable = same and self._repeatable is not False

    def add_metrics(self, figures: Mapping[str, MetricFigure]) -> None:
        """Add the figures of all metrics."""
        self._metrics = dict(figures)

    def _classify(self, name: str, expected: np.ndarray, actual: np.ndarray, labels: np.ndarray | None) -> None:
        if not is_classification(expected):
            return
        if self._classification is None:
            self._classification = Classification(name, expected.shape[1])
        if self._classification.output == name and self._classification.classes == expected.shape[1]:
            self._classification.add(expected, actual, labels)

    def report(self) -> NumericsReport:
        """Figures and verdict so far."""
        outputs = [comparison.figures() for comparison in self._outputs.values()]
        classification = self._classification.figures() if self._classification else None
        missed = list(self._structural.values())
        missed += missed_goals(self.goals, outputs, classification, self._repeatable, self.samples)
        if self._metrics:
            missed += missed_metrics(self.goals.metrics or {}, self._metrics)
        step_sqnr_db = self._steps.sqnr_db if self._steps else []
        growth = describe_growth(step_sqnr_db)
        if not outputs and not missed:
            missed.append(MissedGoal(goal="samples", bound=1, value=0, reason="nothing was compared"))
        return NumericsReport(
            passed=not missed,
            missed=missed,
            warnings=[*warnings(outputs, classification), *([growth] if growth else [])],
            samples=self.samples,
            goals=self.goals,
            overall=_overall(outputs),
            outputs=outputs,
            classification=classification,
            repeatable=self._repeatable,
            metrics=self._metrics,
            step_sqnr_db=step_sqnr_db,
            continuation=self._continued.figures if self._continued else None,
        )


def compare(samples: Iterable[tuple[Outputs, Outputs, np.ndarray | None]], goals: Goals) -> NumericsReport:
    """Compare (reference outputs, package outputs, labels or None) triples.

    Repeatability is not part of it: use ``Comparison`` and ``add_repeat`` when a sample is run twice.
    """
    comparison = Comparison(goals)
    for reference, got, labels in samples:
        comparison.add(reference, got, labels)
    return comparison.report()


def _structural(output: str, problem: str) -> MissedGoal:
    return MissedGoal(goal="signature", output=output, reason=problem)


def _identical(first: np.ndarray, second: np.ndarray) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind in "iub":
        return bool(np.array_equal(first, second))
    return bool(np.array_equal(first.astype(np.float64), second.astype(np.float64), equal_nan=True))


def _overall(outputs: list[OutputFigures]) -> OverallFigures | None:
    if not outputs:
        return None
    return OverallFigures(
        max_abs=max(output.max_abs for output in outputs),
        max_abs_rms=max(output.max_abs_rms for output in outputs),
        mean_abs=max(output.mean_abs for output in outputs),
        max_rel=max(output.max_rel for output in outputs),
        mean_rel=max(output.mean_rel for output in outputs),
        cosine=min(output.cosine for output in outputs),
        sqnr_db=min(output.sqnr_db for output in outputs),
        equal=min(output.equal for output in outputs),
        nonfinite_mismatches=sum(output.nonfinite_mismatches for output in outputs),
    )
