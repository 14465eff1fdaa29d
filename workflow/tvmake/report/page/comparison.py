"""Comparisons of a variant's latency: untuned, the original framework, the previous run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmake.benchmark.statistics import compare_latency
from tvmake.report import quantities
from tvmake.report.diff import compare
from tvmake.report.history import measurements
from tvmake.report.results import VariantResults
from tvmake.report.rows import Summary, SummaryRow
from tvmake.report.selection import compare_variants, samples_of, tie_words
from tvmake.storage.files import canonical_json


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as something a variant is, with the ends of the 95 % interval of the medians' ratio."""

    than: SummaryRow
    factor: float
    low: float
    high: float

    @property
    def figure(self) -> str:
        """The factor with its bounds."""
        return quantities.times_within(self.factor, self.low, self.high)

    def words(self) -> str:
        """``17.2 times as fast as untuned (cpu: 2.1 ms)``."""
        untuned = f"untuned ({self.than.target}: {quantities.milliseconds(self.than.p50_ms)} ms)"
        return speedup_words(self.factor, self.low, self.high, untuned)


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
        if not row.speedup or row.baseline is None or row.speedup_low is None or row.speedup_high is None:
            return ""
        baseline = f"{row.baseline} ({quantities.milliseconds(row.baseline_ms)} ms)"
        return speedup_words(row.speedup, row.speedup_low, row.speedup_high, baseline)


def speedup_words(factor: float, low: float, high: float, than: str) -> str:
    """``17 times as fast as …``, or ``2.5 times as slow as …`` for factors below 1.

    Bounds that are far apart replace the factor (``1.9 to 9.3 times as fast as …``); if they enclose 1, no difference is claimed.
    """
    if low <= 1 <= high:
        return f"no clear difference to {than}"
    word = "fast" if low > 1 else "slow"
    factor, low, high = (factor, low, high) if low > 1 else (1 / factor, 1 / high, 1 / low)
    figures = [f"{value:.0f}" if value >= 100 else f"{value:.3g}" for value in (factor, low, high)]
    figure = f"{figures[1]} to {figures[2]}" if quantities.is_wide(low, high) else figures[0]
    return f"{figure} times as {word} as {than}"


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
    known = measurements(summary.rows, runs)
    by_variant = {}
    for name, row in rows.items():
        if row.p50_ms is None or name not in results_by_name:
            continue
        twin = twins.get(name)
        speedup = _speedup(rows[name_of(twin)], twin, results_by_name[name]) if twin else None
        previous = known[name][-1][1] if known[name] else None
        change = _change(row, previous, summary) if previous else ""
        by_variant[name] = Comparison(row, speedup, previous, change)
    return by_variant


def name_of(result: VariantResults) -> str:
    """``model/precision/target``."""
    return f"{result.variant.model}/{result.variant.precision}/{result.variant.target}"


def headlines(
    summary: Summary, results: Sequence[VariantResults], compared: Mapping[str, Comparison]
) -> list[tuple[str, str]]:
    """The headline of each model on each device: the chosen variant, why it was chosen, and the gain of tuning."""
    samples = samples_of(results)
    groups: dict[tuple[str, str | None], list[SummaryRow]] = {}
    for row in summary.rows:
        if row.latency_ms is not None:
            groups.setdefault((row.model, row.device), []).append(row)
    devices = Counter(model for model, _ in groups)
    lines = []
    for (model, device), rows in groups.items():
        chosen = next((row for row in rows if row.best), None)
        shown = chosen or min(rows, key=_latency)
        lead = f"{_label(shown)} takes {quantities.milliseconds(shown.latency_ms)} ms"
        if chosen is None:
            lead += "; no variant meets its goals" if len(rows) > 1 else "; it misses its goals"
        elif len(rows) > 1:
            lead = _choice(chosen, rows, samples)
        name = model if devices[model] == 1 else f"{model} on {device}"
        lines.append((name, "; ".join([lead, *compared[shown.variant].words])))
    return lines


def _choice(chosen: SummaryRow, rows: Sequence[SummaryRow], samples: Mapping[str, Sequence[float]]) -> str:
    """Which variant was chosen, and whether it is the fastest or as fast as others."""
    able = [row for row in rows if row.verdict == "pass"]
    time = f"{_label(chosen)}, {quantities.milliseconds(chosen.latency_ms)} ms"
    fastest = min(able, key=_latency)
    if fastest is not chosen:
        tie = tie_words(compare_variants(fastest, chosen, samples))
        rival = f"{_label(fastest)} ({quantities.milliseconds(fastest.latency_ms)} ms)"
        return f"the best is {time}: as fast as {rival} {tie}, and before it in the config"
    compared = [(row, compare_variants(chosen, row, samples)) for row in able if row is not chosen]
    equal = [(row, comparison) for row, comparison in compared if comparison.verdict == "same"]
    if not equal:
        return f"the fastest that meets its goals is {time}"
    rivals = _label(equal[0][0]) if len(equal) == 1 else f"{len(equal)} others"
    ties = dict.fromkeys(tie_words(comparison) for _, comparison in equal)
    return f"the best is {time}: as fast as {rivals} {' or '.join(ties)}, and before {'it' if len(equal) == 1 else 'them'} in the config"


def _label(row: SummaryRow) -> str:
    return f"{row.precision} on {row.target}"


def _latency(row: SummaryRow) -> float:
    return row.latency_ms or 0.0


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
