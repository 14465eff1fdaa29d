"""Compare two runs, variant by variant.

A change of latency counts if the bootstrap interval of the ratio of both runs' percentiles excludes 1, and the ratio exceeds the
usual difference between runs (:func:`tvmake.benchmark.statistics.compare_latency`). If both runs measured the same baseline beside
the package, the ratio to it must have changed too: a busier machine slows both. All samples count: a few outliers, which
inflate a standard deviation, hide nothing. Latencies of different devices are shown but not judged.
"""

from dataclasses import dataclass, field
from typing import Literal

from tvmake.benchmark.statistics import THRESHOLD, LatencyComparison, Speedup, compare_latency, relative_change
from tvmake.errors import GoalError, InputError
from tvmake.report import quantities
from tvmake.report.rows import Summary, SummaryRow, failed_line, missed_line
from tvmake.validate.verdict import MissedGoal

SQNR_STEP_DB = 0.5
"""Smallest change of the SQNR worth a line."""

Change = Literal["faster", "slower", "same", "not comparable", "not measured"]


@dataclass(frozen=True)
class VariantDiff:
    """One variant in both runs.

    ``ratio`` is new latency over old, None when either is missing; ``low`` and ``high`` bound it with 95 % confidence.
    ``changes`` describes other changes in words. ``is_worse`` is true if goals that were met are missed now or no longer checked,
    or if an earlier result is no longer built.
    """

    variant: str
    statistic: str | None
    old_ms: float | None
    new_ms: float | None
    ratio: float | None
    low: float | None
    high: float | None
    latency: Change
    relative: float | None = None
    """The ratio of both speedups: the package's slowdown relative to its baseline; None if a run has none, or another one."""
    changes: list[str] = field(default_factory=list)
    is_worse: bool = False

    def is_regression(self, percent: float) -> bool:
        """Slower by more than ``percent`` and more than noise, or goals missed that were met before."""
        slower = self.latency == "slower" and self.ratio is not None and self.ratio > 1 + percent / 100
        return slower or self.is_worse


@dataclass(frozen=True)
class SummaryDiff:
    """Two runs; variants in the new run's order."""

    variants: list[VariantDiff]
    added: list[str]
    removed: list[str]
    notes: list[str]

    def without_comparison(self) -> list[VariantDiff]:
        """The variants whose latency in the old run is not compared, and which are not worse otherwise."""
        silent = ("not comparable", "not measured")
        return [
            variant
            for variant in self.variants
            if variant.old_ms is not None and variant.latency in silent and not variant.is_worse
        ]

    def regressions(self, percent: float) -> list[VariantDiff]:
        """The variants that got worse; ``percent`` is the slowdown to tolerate."""
        return [variant for variant in self.variants if variant.is_regression(percent)]

    def exit_code(self, percent: float | None) -> int:
        """4 when there are regressions beyond ``percent``, else 0; without ``percent`` always 0.

        Raises:
            InputError: there is a ``percent``, and both runs have no variant in common, or none whose latencies can be compared.
        """
        if percent is None:
            return 0
        if not self.variants:
            raise InputError(
                "--fail-on-regression",
                "there is nothing to judge: no variant of the old run is in the new one",
                "compare runs of the same models, precisions and targets; renamed ones count as other variants",
            )
        if self.regressions(percent):
            return GoalError.exit_code
        measured = [variant for variant in self.variants if variant.old_ms is not None]
        if measured and self.without_comparison() == measured:
            raise InputError(
                "--fail-on-regression",
                "no latency of the old run can be compared with one of the new run",
                "measure both runs on the same device; the lines above list the changes",
            )
        return 0


def compare(old: Summary, new: Summary) -> SummaryDiff:
    """Compare two summaries.

    Raises:
        InputError: a latency has no samples.
    """
    before = {row.variant: row for row in old.rows}
    after = {row.variant: row for row in new.rows}
    versions = (
        ("tvmake", old.tvmake_version, new.tvmake_version),
        ("TVM", old.tvm_version, new.tvm_version),
    )
    notes = [f"{name} {first} → {second}" for name, first, second in versions if first != second]
    if old.created_at > new.created_at:
        notes.append(f"the old run is the later one: {old.created_at}, the new one {new.created_at}")
    return SummaryDiff(
        variants=[_compare(before[name], row) for name, row in after.items() if name in before],
        added=[name for name in after if name not in before],
        removed=[name for name in before if name not in after],
        notes=notes,
    )


def _compare(old: SummaryRow, new: SummaryRow) -> VariantDiff:
    statistic, old_ms, new_ms = _latencies(old, new)
    compared = None
    latency: Change = "not measured"
    if old_ms is not None and new_ms is not None:
        compared = _compare_latency(old, new)
        latency = compared.verdict if old.soc == new.soc else "not comparable"
    relative = _relative(old, new)
    changes = _changes(old, new)
    if latency in ("slower", "faster") and relative is not None and not _agrees(latency, relative.ratio):
        changes.insert(0, _as_the_baseline(latency, new, relative))
        latency = "same"
    return VariantDiff(
        variant=new.variant,
        statistic=statistic,
        old_ms=old_ms,
        new_ms=new_ms,
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        latency=latency,
        relative=relative.ratio if relative else None,
        changes=changes,
        is_worse=_is_worse(old, new),
    )


def _is_worse(old: SummaryRow, new: SummaryRow) -> bool:
    if new.verdict in ("failed", "not made"):
        return old.package is not None
    if new.verdict == "not run":  # the earlier goals are not checked any more
        return old.verdict == "pass"
    return old.package is not None and bool(_newly_missed(old, new))


def _newly_missed(old: SummaryRow, new: SummaryRow) -> list[MissedGoal]:
    known = {(goal.goal, goal.output) for goal in old.missed}
    return [goal for goal in new.missed if (goal.goal, goal.output) not in known]


def _relative(old: SummaryRow, new: SummaryRow) -> Speedup | None:
    """The change relative to the baseline, if both runs have the same one, by the same statistic."""
    speedups = [_speedup(row) for row in (old, new)]
    if None in speedups or old.baseline != new.baseline or old.percentile != new.percentile:
        return None
    first, second = (speedup for speedup in speedups if speedup is not None)
    return relative_change(first, second)


def _speedup(row: SummaryRow) -> Speedup | None:
    if not row.speedup or not row.speedup_low or not row.speedup_high:
        return None
    return Speedup(row.speedup, row.speedup_low, row.speedup_high)


def _agrees(latency: Change, relative: float) -> bool:
    return relative > 1 + THRESHOLD if latency == "slower" else relative < 1 / (1 + THRESHOLD)


def _as_the_baseline(latency: Change, new: SummaryRow, relative: Speedup) -> str:
    beside = f"{quantities.change(relative.ratio)} against it"
    return f"{latency} as {new.baseline} beside it is ({beside}): the machine, not the package"


def _latencies(old: SummaryRow, new: SummaryRow) -> tuple[str | None, float | None, float | None]:
    if old.percentile is not None and old.percentile == new.percentile:
        return old.percentile, old.latency_ms, new.latency_ms
    # Ranked by different statistics, or measured in one run only: every measurement has a median.
    return ("p50" if old.percentile or new.percentile else None), old.p50_ms, new.p50_ms


def _compare_latency(old: SummaryRow, new: SummaryRow) -> LatencyComparison:
    for which, row in (("old", old), ("new", new)):
        if not row.samples_ms:
            problem = f"the {which} run's summary has no latency samples, because an earlier version wrote it"
            raise InputError(row.variant, problem, "repeat that run with this version to compare it")
    percentile = old.percentile if old.percentile is not None and old.percentile == new.percentile else "p50"
    return compare_latency(old.samples_ms, new.samples_ms, percentile=percentile)


def _changes(old: SummaryRow, new: SummaryRow) -> list[str]:
    lines = []

    def changed(name: str, before: str, after: str) -> None:
        if before != after:
            lines.append(f"{name} {before} → {after}")

    changed("verdict", old.verdict, new.verdict)
    if new.package is None:
        return [*lines, failed_line(new)]
    if new.verdict == "fail":
        lines += [f"now misses {missed_line(goal)}" for goal in _newly_missed(old, new)]
    if old.package is None:
        return lines
    changed("device", old.soc or quantities.ABSENT, new.soc or quantities.ABSENT)
    changed("top-1", quantities.share(old.top1), quantities.share(new.top1))
    changed("top-5", quantities.share(old.top5), quantities.share(new.top5))
    if old.sqnr_db is None or new.sqnr_db is None or abs(old.sqnr_db - new.sqnr_db) >= SQNR_STEP_DB:
        changed("SQNR", quantities.level(old.sqnr_db), quantities.level(new.sqnr_db))
    for name in dict.fromkeys([*old.metrics, *new.metrics]):
        changed(name, quantities.figure(old.metrics.get(name)), quantities.figure(new.metrics.get(name)))
    changed("tuned kernels", f"{old.tuned_kernels}/{old.tunable_kernels}", f"{new.tuned_kernels}/{new.tunable_kernels}")
    changed("layout", old.layout, new.layout)
    changed("package", quantities.size(old.package_bytes), quantities.size(new.package_bytes))
    return lines
