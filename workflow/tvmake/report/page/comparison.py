"""Comparisons of a variant's latency: untuned, the original framework, the previous run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmake.benchmark.statistics import compare_latency
from tvmake.report import quantities
from tvmake.report.diff import compare
from tvmake.report.history import measurements
from tvmake.report.results import VariantResults
from tvmake.report.rows import Summary, SummaryRow
from tvmake.storage.files import canonical_json


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as something a variant is, with the ends of the 95 % interval of the medians' ratio."""

    than: SummaryRow
    factor: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes that both are equally fast."""
        return self.low > 1 or self.high < 1

    def words(self) -> str:
        """``17.2 times as fast as untuned (cpu: 2.1 ms)``."""
        untuned = f"untuned ({self.than.target}: {quantities.milliseconds(self.than.p50_ms)} ms)"
        if not self.is_clear:
            return f"no clear difference to {untuned}"
        return f"{factor_words(self.factor)} as {untuned}"


@dataclass(frozen=True)
class Comparison:
    """The comparisons of one variant; None if there is none."""

    row: SummaryRow
    untuned: Speedup | None = None
    previous: SummaryRow | None = None
    change: str = ""
    """Against the previous run, in words."""

    @property
    def words(self) -> list[str]:
        """All comparisons, a phrase each."""
        return [words for words in (self.untuned.words() if self.untuned else "", self._baseline, self.change) if words]

    @property
    def _baseline(self) -> str:
        """``2.1 times as fast as onnxruntime (2.1 ms)``."""
        row = self.row
        if not row.speedup or row.baseline is None:
            return ""
        return f"{factor_words(row.speedup)} as {row.baseline} ({quantities.milliseconds(row.baseline_ms)} ms)"


def factor_words(factor: float) -> str:
    """``17 times as fast``, or ``2.5 times as slow`` for factors below 1."""
    is_fast = factor >= 1
    times = factor if is_fast else 1 / factor
    figure = f"{times:.0f}" if times >= 100 else f"{times:.3g}"
    return f"{figure} times as {'fast' if is_fast else 'slow'}"


def comparisons(
    summary: Summary, results: Sequence[VariantResults], runs: Sequence[Summary] = ()
) -> Mapping[str, Comparison]:
    """The comparisons of every measured variant, by variant name.

    Args:
        summary: the run.
        results: the run's results.
        runs: earlier runs of the same results, the oldest first.
    """
    results_by_name = {name_of(result): result for result in results}
    twins = untuned_twins(results)
    rows = {row.variant: row for row in summary.rows}
    by_variant = {}
    for name, row in rows.items():
        if row.p50_ms is None or name not in results_by_name:
            continue
        twin = twins.get(name)
        speedup = _speedup(rows[name_of(twin)], twin, results_by_name[name]) if twin else None
        before = measurements(row, runs)
        previous = before[-1][1] if before else None
        change = _change(row, previous, summary) if previous else ""
        by_variant[name] = Comparison(row, speedup, previous, change)
    return by_variant


def name_of(result: VariantResults) -> str:
    """``model/precision/target``."""
    return f"{result.variant.model}/{result.variant.precision}/{result.variant.target}"


def headlines(summary: Summary, compared: Mapping[str, Comparison]) -> list[tuple[str, str]]:
    """The headline of each model: its best variant, and the gain of tuning."""
    lines = []
    for model in dict.fromkeys(row.model for row in summary.rows):
        rows = [row for row in summary.rows if row.model == model]
        measured = [row for row in rows if row.latency_ms is not None]
        if not measured:
            continue
        chosen = [row for row in measured if row.best]
        fastest = min(chosen or measured, key=lambda row: row.latency_ms or 0.0)
        is_one = len(measured) == 1
        lead = f"{fastest.precision} on {fastest.target} takes {quantities.milliseconds(fastest.latency_ms)} ms"
        if not chosen:
            lead += "; no variant meets its goals" if not is_one else "; it misses its goals"
        elif not is_one:
            lead = f"the fastest that meets its goals is {lead.replace(' takes', ',', 1)}"
        lines.append((model, "; ".join([lead, *compared[fastest.variant].words])))
    return lines


def untuned_twins(results: Sequence[VariantResults]) -> dict[str, VariantResults]:
    """For each tuned variant the same model at the same precision for the same target and device without records."""
    plain = {_twin_key(result): result for result in results if result.manifest.coverage.tuned == 0}
    return {
        name_of(result): plain[_twin_key(result)]
        for result in results
        if result.manifest.coverage.tuned and _twin_key(result) in plain
    }


def _twin_key(result: VariantResults) -> tuple[str, str, str | None, str]:
    variant = result.variant
    return variant.model, variant.precision, variant.device, canonical_json(result.manifest.target)


def _speedup(than: SummaryRow, twin: VariantResults, result: VariantResults) -> Speedup | None:
    if twin.latency is None or result.latency is None or twin.latency.fingerprint.soc != result.latency.fingerprint.soc:
        return None
    compared = compare_latency(result.latency.report.samples_ms, twin.latency.report.samples_ms)
    return Speedup(than, compared.ratio, compared.low, compared.high)


def _change(row: SummaryRow, previous: SummaryRow, summary: Summary) -> str:
    (variant,) = compare(
        summary.model_copy(update={"rows": [previous]}), summary.model_copy(update={"rows": [row]})
    ).variants
    if variant.ratio is None:
        return ""
    moved = quantities.change(variant.ratio)
    match variant.latency:
        case "slower" | "faster":
            return f"{moved}, {variant.latency} than in the previous run"
        case "same":
            return f"{moved}, within noise of the run before"
        case _:
            return "measured on another device in the run before"
