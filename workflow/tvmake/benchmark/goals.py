"""Goals of latency, memory and size, compared with measurements."""

from collections.abc import Iterator

import numpy as np

from tvmake.benchmark.baseline.result import NoBaseline
from tvmake.benchmark.result import Latency
from tvmake.config.validation import Goals
from tvmake.validate.verdict import MissedGoal

MB = 1_000_000


def missed_performance(goals: Goals, package_bytes: int, latency: Latency | None) -> list[MissedGoal]:
    """The goals of latency, memory and size that a package misses.

    Args:
        goals: the variant's; numeric ones are ignored.
        package_bytes: the size of package.tar.
        latency: the measurement; None for a package that does not run, whose size alone is judged.
    """
    return [*_of_package(goals, package_bytes), *(_of_run(goals, latency) if latency else ())]


def _of_package(goals: Goals, size: int) -> Iterator[MissedGoal]:
    if goals.package_mb is not None and size > goals.package_mb * MB:
        yield _missed_goal("package_mb", goals.package_mb, size / MB, f"package.tar has {size / MB:.3g} MB")


def _of_run(goals: Goals, latency: Latency) -> Iterator[MissedGoal]:
    report = latency.report
    for percentile, bound in (goals.latency_ms or {}).items():
        latency_ms = float(np.percentile(report.samples_ms, float(percentile[1:])))
        if latency_ms > bound:
            yield _missed_goal(f"latency_ms.{percentile}", bound, latency_ms, f"{latency_ms:.4g} ms")
    if goals.speedup is not None:
        compared = latency.speedup
        if compared is None:
            why = latency.baseline.problem if isinstance(latency.baseline, NoBaseline) else "none was measured"
            yield _missed_goal("speedup", goals.speedup, None, f"it needs a baseline: {why}")
        elif compared.ratio < goals.speedup:
            reason = f"{compared.ratio:.3g} times as fast as the baseline ({compared.low:.3g} to {compared.high:.3g})"
            yield _missed_goal("speedup", goals.speedup, compared.ratio, reason)
    limits: tuple[tuple[str, float | None, float | None, str], ...] = (
        ("peak_memory_mb", goals.peak_memory_mb, _mb(report.peak_memory_bytes), "MB"),
        ("load_ms", goals.load_ms, report.load_ms, "ms"),
    )
    for name, limit, measured, unit in limits:
        if limit is not None and (measured is None or measured > limit):
            reason = "unknown on this device" if measured is None else f"{measured:.4g} {unit}"
            yield _missed_goal(name, limit, measured, reason)


def _mb(size: int | None) -> float | None:
    return size / MB if size else None


def _missed_goal(goal: str, bound: float, value: float | None, reason: str) -> MissedGoal:
    return MissedGoal(goal=goal, bound=bound, value=value, reason=reason)
