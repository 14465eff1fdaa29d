"""Compare two runs, variant by variant.

A change of latency counts when it exceeds what repeating a run changes by itself: ``NOISE_FLOOR``, or the spread of the
two measurements, sqrt(cv_old² + cv_new²), where that is larger. The spread is not divided by the square root of the
number of samples, because samples of one run share its conditions (clock, temperature, memory layout) and are not
independent. Latencies from different devices are shown and not judged.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from tvmake.errors import GoalError
from tvmake.report import quantities
from tvmake.report.rows import Summary, SummaryRow, failed_line, missed_line

NOISE_FLOOR = 0.03
"""Relative change below which latencies count as equal, however steady each run was."""
SQNR_STEP_DB = 0.5
"""Smallest change of the SQNR worth a line."""

Change = Literal["faster", "slower", "same", "not comparable", "not measured"]


@dataclass(frozen=True)
class VariantDiff:
    """One variant in both runs.

    ``ratio`` is new latency over old, None when either is missing; ``threshold`` the relative change that counts.
    ``changes`` says in words what else changed. ``is_worse`` holds when goals that were met are missed now, or what was made
    is not made any more.
    """

    variant: str
    statistic: str | None
    old_ms: float | None
    new_ms: float | None
    ratio: float | None
    threshold: float | None
    latency: Change
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

    def regressions(self, percent: float) -> list[VariantDiff]:
        """The variants that got worse; ``percent`` is the slowdown to tolerate."""
        return [variant for variant in self.variants if variant.is_regression(percent)]

    def exit_code(self, percent: float | None) -> int:
        """4 when there are regressions beyond ``percent``, else 0; without ``percent`` always 0."""
        return GoalError.exit_code if percent is not None and self.regressions(percent) else 0


def compare(old: Summary, new: Summary) -> SummaryDiff:
    """Compare two summaries."""
    before = {row.variant: row for row in old.rows}
    after = {row.variant: row for row in new.rows}
    versions = (
        ("tvmake", old.tvmake_version, new.tvmake_version),
        ("TVM", old.tvm_version, new.tvm_version),
    )
    return SummaryDiff(
        variants=[_compare(before[name], row) for name, row in after.items() if name in before],
        added=[name for name in after if name not in before],
        removed=[name for name in before if name not in after],
        notes=[f"{name} {first} → {second}" for name, first, second in versions if first != second],
    )


def noise_threshold(old: SummaryRow, new: SummaryRow) -> float:
    """The relative change of latency that counts between two measurements."""
    return max(NOISE_FLOOR, math.hypot(old.cv or 0.0, new.cv or 0.0))


def _compare(old: SummaryRow, new: SummaryRow) -> VariantDiff:
    statistic, old_ms, new_ms = _latencies(old, new)
    ratio = threshold = None
    latency: Change = "not measured"
    if old_ms is not None and new_ms is not None and old_ms > 0:
        ratio, threshold = new_ms / old_ms, noise_threshold(old, new)
        latency = _judge(ratio, threshold) if old.soc == new.soc else "not comparable"
    return VariantDiff(
        variant=new.variant,
        statistic=statistic,
        old_ms=old_ms,
        new_ms=new_ms,
        ratio=ratio,
        threshold=threshold,
        latency=latency,
        changes=_changes(old, new),
        is_worse=old.verdict in ("pass", "not run") and new.verdict in ("fail", "failed", "not made"),
    )


def _latencies(old: SummaryRow, new: SummaryRow) -> tuple[str | None, float | None, float | None]:
    if old.percentile is not None and old.percentile == new.percentile:
        return old.percentile, old.latency_ms, new.latency_ms
    # Ranked by different statistics, or measured in one run only: every measurement has a median.
    return ("p50" if old.percentile or new.percentile else None), old.p50_ms, new.p50_ms


def _judge(ratio: float, threshold: float) -> Change:
    if ratio > 1 + threshold:
        return "slower"
    # Symmetric in the ratio: swapping the runs swaps the verdict.
    return "faster" if ratio < 1 / (1 + threshold) else "same"


def _changes(old: SummaryRow, new: SummaryRow) -> list[str]:
    found = []

    def changed(name: str, before: str, after: str) -> None:
        if before != after:
            found.append(f"{name} {before} → {after}")

    changed("verdict", old.verdict, new.verdict)
    if new.package is None:
        return [*found, failed_line(new)]
    if new.verdict == "fail":
        known = {(goal.goal, goal.output) for goal in old.missed}
        found += [f"now misses {missed_line(goal)}" for goal in new.missed if (goal.goal, goal.output) not in known]
    changed("device", old.soc or quantities.ABSENT, new.soc or quantities.ABSENT)
    changed("top-1", quantities.share(old.top1), quantities.share(new.top1))
    changed("top-5", quantities.share(old.top5), quantities.share(new.top5))
    if old.sqnr_db is None or new.sqnr_db is None or abs(old.sqnr_db - new.sqnr_db) >= SQNR_STEP_DB:
        changed("SQNR", quantities.level(old.sqnr_db), quantities.level(new.sqnr_db))
    changed("tuned kernels", f"{old.tuned_kernels}/{old.tunable_kernels}", f"{new.tuned_kernels}/{new.tunable_kernels}")
    changed("layout", old.layout, new.layout)
    changed("package", quantities.size(old.package_bytes), quantities.size(new.package_bytes))
    return found
