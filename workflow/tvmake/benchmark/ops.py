"""Per-kernel times, gathered into a table."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict


class KernelCall(BaseModel):
    """One call of one kernel, as a profiled run reports it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    duration_ms: float


class KernelRow(BaseModel):
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


def render_table(rows: Sequence[KernelRow], top: int | None = None) -> str:
    """The table as text, one kernel a line; beyond ``top`` rows the rest is summed up in one."""
    shown = list(rows if top is None else rows[:top])
    rest = rows[len(shown) :]
    if rest:
        calls, total = sum(row.calls for row in rest), sum(row.total_ms for row in rest)
        shown.append(
            KernelRow(
                kernel=f"({len(rest)} more)",
                calls=calls,
                total_ms=total,
                mean_ms=total / calls,
                share=sum(row.share for row in rest),
            )
        )
    width = max([len("kernel"), *(len(row.kernel) for row in shown)])
    lines = [f"{'kernel':<{width}}  {'calls':>7}  {'total ms':>10}  {'mean ms':>10}  {'share':>6}"]
    lines += [
        f"{row.kernel:<{width}}  {row.calls:>7g}  {row.total_ms:>10.4f}  {row.mean_ms:>10.4f}  {row.share:>6.1%}"
        for row in shown
    ]
    return "\n".join(lines)
