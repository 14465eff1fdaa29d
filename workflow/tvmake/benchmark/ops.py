"""Per-kernel times, gathered into a table."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from tvmake.storage.documents import FailsFast


class KernelCall(FailsFast, BaseModel):
    """One call of one kernel, as a profiled run reports it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    duration_ms: float


class KernelRow(FailsFast, BaseModel):
    """One kernel in one run of the model.

    ``calls`` and ``total_ms`` are means over the profiled runs, ``mean_ms`` is per call, ``share`` is of the sum over
    all kernels. That sum leaves out what happens between kernels, and profiling slows kernels down: shares are
    meaningful, the sum is not the model's latency.
    """

    model_config = ConfigDict(extra="forbid")

    kernel: str
    calls: float
    total_ms: float
    mean_ms: float
    share: float


def kernel_table(calls: Iterable[KernelCall], runs: int = 1) -> list[KernelRow]:
    """Sum calls by kernel, the most expensive first; equal ones by name.

    Args:
        runs: how many runs of the model the calls come from.

    Raises:
        ValueError: ``runs`` is not positive.
    """
    if runs < 1:
        raise ValueError("a profile covers at least one run")
    counts: dict[str, int] = {}
    totals: dict[str, float] = {}
    for call in calls:
        counts[call.kernel] = counts.get(call.kernel, 0) + 1
        totals[call.kernel] = totals.get(call.kernel, 0.0) + call.duration_ms
    everything = sum(totals.values())
    rows = [
        KernelRow(
            kernel=kernel,
            calls=counts[kernel] / runs,
            total_ms=total / runs,
            mean_ms=total / counts[kernel],
            share=total / everything if everything > 0 else 0.0,
        )
        for kernel, total in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row.total_ms, row.kernel))
