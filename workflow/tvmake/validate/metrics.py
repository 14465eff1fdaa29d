"""Users' metrics: functions of all samples that return one number, computed for the package and for its source model.

A config names these functions like passes and factories: they are loaded from installed packages or the working directory, and
run in the validating job.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from tvmake.config.validation import Metric
from tvmake.errors import InputError
from tvmake.process.user_code import defined_at, guard_call, load_function
from tvmake.storage.documents import FailsFast
from tvmake.validate.verdict import MissedGoal

TAKES = "a metric takes the samples, then its `arguments` by name, and returns one number (docs/guides/validate.md)"


@dataclass(frozen=True)
class MetricSample:
    """One call of the model, as a metric sees it: arrays by their names in the source, batch extent included.

    ``labels`` are int64 class indices [batch], or None; ``truth`` has the dataset's arrays that ``dataset.truth`` names.
    """

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    labels: np.ndarray | None
    truth: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class MetricSamples:
    """All samples with one side's outputs; each iteration reads them again, one at a time."""

    read: Callable[[], Iterator[MetricSample]]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[MetricSample]:
        return self.read()


class MetricFigure(FailsFast, BaseModel):
    """A metric of the package and of its source model; None if it is not finite."""

    model_config = ConfigDict(extra="forbid")

    value: float | None
    reference: float | None


def measure(metrics: Mapping[str, Metric], package: MetricSamples, reference: MetricSamples) -> dict[str, MetricFigure]:
    """Compute every metric for both sides.

    Raises:
        InputError: a function is missing, fails, or does not return a number.
    """
    figures = {}
    for name, metric in metrics.items():
        where = f"metric {metric.use}"
        function = load_function(metric.use, where)
        value, expected = (_figure(function, samples, metric, where) for samples in (package, reference))
        figures[name] = MetricFigure(value=value, reference=expected)
    return figures


def missed_metrics(metrics: Mapping[str, Metric], figures: Mapping[str, MetricFigure]) -> list[MissedGoal]:
    """The bounds of metrics that are not met, in the config's order; a figure that is not a number misses every bound."""
    return [missed for name, metric in metrics.items() for missed in _missed_bounds(name, metric, figures[name])]


def _missed_bounds(name: str, metric: Metric, figure: MetricFigure) -> Iterable[MissedGoal]:
    value = figure.value

    def miss(bound: float, reason: str) -> MissedGoal:
        return MissedGoal(goal=name, bound=bound, value=value, reason=reason)

    for bound, is_met, side in (
        (metric.at_least, lambda got, least: got >= least, "low"),
        (metric.at_most, lambda got, most: got <= most, "high"),
    ):
        if bound is not None and (value is None or not is_met(value, bound)):
            got = "not a finite number" if value is None else f"{value:.6g}"
            yield miss(bound, f"is {got}" + ("" if value is None else f", too {side}"))
    if metric.within is not None:
        if value is None or figure.reference is None:
            yield miss(metric.within, "is not a finite number on both sides")
        elif abs(value - figure.reference) > metric.within:
            yield miss(
                metric.within,
                f"is {value:.6g}, the source model's {figure.reference:.6g}: {abs(value - figure.reference):.3g} apart",
            )


def _figure(function: Callable[..., Any], samples: MetricSamples, metric: Metric, where: str) -> float | None:
    with guard_call(where, "failed", function, TAKES):
        value = function(samples, **metric.arguments)
    try:
        # Numbers of Python's and numpy's, and tensors of one element.
        number = None if isinstance(value, str | bytes) else float(value)
    except OverflowError:
        return None
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        number = None
    if number is None:
        problem = f"returned a {type(value).__name__}{defined_at(function)}, not a number"
        raise InputError(where, problem, TAKES)
    return number if math.isfinite(number) else None
