"""For each model and device, the fastest variant that meets all goals, and why the others are not it."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tvmake.benchmark.statistics import LatencyComparison, Percentile, compare_latency
from tvmake.report import quantities
from tvmake.report.results import VariantResults
from tvmake.report.rows import SummaryRow, failed_line, missed_line
from tvmake.storage.documents import FailsFast

Why = Literal["missed", "slower", "same", "failed", "not made", "not measured"]


class _Record(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Loser(_Record):
    """A variant that was not chosen.

    ``ratio`` is its latency over the chosen one's, with a 95 % confidence interval; None without a comparison.
    """

    variant: str
    why: Why
    reason: str
    """In one line."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


class Choice(_Record):
    """The variant chosen for a model on a device; None if none meets all goals."""

    model: str
    device: str
    chosen: str | None
    package: str | None = None
    """Path of its package inside the results directory."""
    package_sha256: str | None = None
    percentile: Percentile | None = None
    latency_ms: float | None = None
    losers: list[Loser]
    """In the order of the config; variants that were not built come last."""


class Selection(_Record):
    """selection.json: the choice of every model on every device, in the order of the config."""

    schema_version: Literal[1] = 1
    choices: list[Choice]

    @property
    def chosen(self) -> frozenset[str]:
        """The variants that were chosen somewhere."""
        return frozenset(choice.chosen for choice in self.choices if choice.chosen)


def select(rows: Sequence[SummaryRow], results: Sequence[VariantResults]) -> Selection:
    """Choose the best variant for each model and device.

    The fastest variant is determined by the ranking percentile. Variants that do not differ from it significantly, by the interval
    of the latencies' ratio and the threshold of :func:`compare_latency`, are equivalent: the first of them in the config is
    chosen, so that noise does not change the choice between runs.

    Args:
        rows: of all variants.
        results: of the variants that were built.
    """
    samples = samples_of(results)
    groups: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        if row.device is not None:
            groups.setdefault((row.model, row.device), []).append(row)
    return Selection(choices=[_choose(*names, group, samples) for names, group in groups.items()])


def _choose(model: str, device: str, rows: Sequence[SummaryRow], samples: Mapping[str, list[float]]) -> Choice:
    able = [row for row in rows if row.verdict == "pass" and row.latency_ms is not None]
    if not able:
        return Choice(model=model, device=device, chosen=None, losers=[_loser(row, None, samples) for row in rows])
    fastest = min(able, key=lambda row: row.latency_ms or 0.0)
    chosen = next(row for row in able if row is fastest or compare_variants(fastest, row, samples).verdict == "same")
    return Choice(
        model=model,
        device=device,
        chosen=chosen.variant,
        package=chosen.package,
        package_sha256=chosen.package_sha256,
        percentile=chosen.percentile,
        latency_ms=chosen.latency_ms,
        losers=[_loser(row, chosen, samples) for row in rows if row is not chosen],
    )


def _loser(row: SummaryRow, chosen: SummaryRow | None, samples: Mapping[str, list[float]]) -> Loser:
    if row.verdict == "failed":
        return Loser(variant=row.variant, why="failed", reason=f"failed at {failed_line(row)}")
    if row.verdict == "not made":
        return Loser(variant=row.variant, why="not made", reason=failed_line(row))
    if row.missed:
        reason = "; ".join(f"missed {missed_line(goal)}" for goal in row.missed)
        return Loser(variant=row.variant, why="missed", reason=reason)
    if chosen is None or row.latency_ms is None:
        return Loser(variant=row.variant, why="not measured", reason="not measured")
    compared = compare_variants(chosen, row, samples)
    times = f"{quantities.times(compared.ratio)}, {quantities.times(compared.low)} to {quantities.times(compared.high)}"
    if compared.verdict == "slower":
        why: Why = "slower"
        reason = f"takes {quantities.times(compared.ratio)} as long ({times.partition(', ')[2]})"
    else:
        why = "same"
        reason = f"as fast {tie_words(compared)} ({times}), and later in the config"
    return Loser(
        variant=row.variant, why=why, reason=reason, ratio=compared.ratio, low=compared.low, high=compared.high
    )


def tie_words(compared: LatencyComparison) -> str:
    """In what two variants are equivalent: ``within noise``, or a difference that is clear and small."""
    is_noise = compared.low <= 1 <= compared.high
    return "within noise" if is_noise else f"within {quantities.share(compared.threshold, 0)}"


def samples_of(results: Sequence[VariantResults]) -> dict[str, list[float]]:
    """The latency samples of each variant that ran."""
    return {_name(result): result.latency.report.samples_ms for result in results if result.latency}


def compare_variants(
    first: SummaryRow, second: SummaryRow, samples: Mapping[str, Sequence[float]]
) -> LatencyComparison:
    """The latency of the second variant over the first one's, by the ranking percentile."""
    assert first.percentile is not None
    return compare_latency(samples[first.variant], samples[second.variant], percentile=first.percentile)


def _name(result: VariantResults) -> str:
    return f"{result.variant.model}/{result.variant.precision}/{result.variant.target}"
