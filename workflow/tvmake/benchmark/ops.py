"""Per-kernel times, gathered into a table."""

import statistics
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from tvmake.storage.documents import FailsFast


class KernelCall(FailsFast, BaseModel):
    """One call of one kernel, as a profiled run reports it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    duration_ms: float


class KernelRow(FailsFast, BaseModel):
    """The time of one kernel in a run of the model.

    ``calls`` is the mean over the profiled runs, ``median_ms`` the median of all calls, ``total_ms`` their product, and ``share`` relative
    to the sum over all kernels. The sum excludes time between kernels, and profiling slows kernels down: shares are
    meaningful, the sum is not the model's latency.
    """

    model_config = ConfigDict(extra="forbid")

    kernel: str
    calls: float
    total_ms: float
    median_ms: float
    share: float


def kernel_table(calls: Iterable[KernelCall], runs: int = 1) -> list[KernelRow]:
    """Calls by kernel, the most expensive first; equal ones by name.

    Args:
        runs: how many runs of the model the calls come from.

    Raises:
        ValueError: ``runs`` is not positive.
    """
    if runs < 1:
        raise ValueError("a profile covers at least one run")
    durations: dict[str, list[float]] = {}
    for call in calls:
        durations.setdefault(call.kernel, []).append(call.duration_ms)
    # Of a mean, one call that other work on the machine stopped would be most.
    medians = {kernel: statistics.median(times) for kernel, times in durations.items()}
    totals = {kernel: median * len(durations[kernel]) / runs for kernel, median in medians.items()}
    everything = sum(totals.values())
    rows = [
        KernelRow(
            kernel=kernel,
            calls=len(durations[kernel]) / runs,
            total_ms=total,
            median_ms=medians[kernel],
            share=total / everything if everything > 0 else 0.0,
        )
        for kernel, total in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row.total_ms, row.kernel))
