"""For each model and device, the fastest variant that meets all goals, and why the others are not it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tvmake.benchmark.statistics import LatencyComparison, Percentile, compare_latency
from tvmake.report import quantities
from tvmake.report.packages import PackageRow
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


@dataclass(frozen=True)
class _Candidate:
    """A package, and the rows that judge it: its own, or those of its functions, of which the first decides its speed."""

    variant: str
    package: str | None
    package_sha256: str | None
    rows: tuple[SummaryRow, ...]
    cause: str | None = None

    @property
    def first(self) -> SummaryRow:
        return self.rows[0]

    @property
    def is_able(self) -> bool:
        """Whether it meets all goals and was measured."""
        able = all(row.verdict == "pass" and row.latency_ms is not None for row in self.rows)
        return able and self.cause is None


def select(
    rows: Sequence[SummaryRow], results: Sequence[VariantResults], packages: Sequence[PackageRow] = ()
) -> Selection:
    """Choose the best variant for each model and device.

    Of a model with functions, a variant is a package whose functions all meet their goals; the latency of its first function is compared.

    The fastest variant is determined by the ranking percentile. Variants that do not differ from it significantly, by the interval
    of the latencies' ratio and the threshold of :func:`compare_latency`, are equivalent: the first of them in the config is
    chosen, so that noise does not change the choice between runs.

    Args:
        rows: of all variants.
        results: of the variants that were built.
        packages: of packages with several functions, whose rows are among the others.
    """
    samples = samples_of(results)
    known = {row.variant: row for row in rows}
    functions = {name: package for package in packages for name in package.functions}
    groups: dict[tuple[str, str], dict[str, _Candidate]] = {}
    for row in rows:
        if row.device is None:
            continue
        if package := functions.get(row.variant):
            judged = tuple(known[name] for name in package.functions)
            candidate = _Candidate(package.variant, package.package, package.package_sha256, judged, package.cause)
            model = package.model
        else:
            candidate, model = _Candidate(row.variant, row.package, row.package_sha256, (row,)), row.model
        groups.setdefault((model, row.device), {}).setdefault(candidate.variant, candidate)
    return Selection(choices=[_choose(*names, [*group.values()], samples) for names, group in groups.items()])


def _choose(model: str, device: str, candidates: Sequence[_Candidate], samples: Mapping[str, list[float]]) -> Choice:
    able = [candidate for candidate in candidates if candidate.is_able]
    if not able:
        losers = [_losing(candidate, None, samples) for candidate in candidates]
        return Choice(model=model, device=device, chosen=None, losers=losers)
    fastest = min(able, key=lambda candidate: candidate.first.latency_ms or 0.0)
    chosen = next(
        candidate
        for candidate in able
        if candidate is fastest or compare_variants(fastest.first, candidate.first, samples).verdict == "same"
    )
    return Choice(
        model=model,
        device=device,
        chosen=chosen.variant,
        package=chosen.package,
        package_sha256=chosen.package_sha256,
        percentile=chosen.first.percentile,
        latency_ms=chosen.first.latency_ms,
        losers=[_losing(candidate, chosen, samples) for candidate in candidates if candidate is not chosen],
    )


def _losing(candidate: _Candidate, chosen: _Candidate | None, samples: Mapping[str, list[float]]) -> Loser:
    """Why a candidate was not chosen: of several functions, the first that does not meet its goals."""
    wrong = next((row for row in candidate.rows if row.verdict != "pass"), candidate.first)
    if candidate.cause and wrong.verdict == "pass":
        return Loser(variant=candidate.variant, why="failed", reason=candidate.cause)
    loser = _loser(wrong, chosen.first if chosen else None, samples)
    where = f"{wrong.model}: " if wrong.variant != candidate.variant and wrong.verdict != "pass" else ""
    return loser.model_copy(update={"variant": candidate.variant, "reason": f"{where}{loser.reason}"})


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
