"""Receipts: the output of a tuning job, and the records that belong to it.

A receipt states that a kernel's budget is spent, and summarises its search; the records are in the store. A variant is
built from the records that its receipts count, and not from later ones, because other projects may tune the same kernels
concurrently. On a shared file system the records may become visible after the receipt.
"""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.size_points import SizePoint
from tvmake.errors import MachineError
from tvmake.records.preference import latest_comparison
from tvmake.records.record import Comparison, Digest, Status, TuningContext
from tvmake.records.store import RecordStore, StoredRecord, of_sizes
from tvmake.storage.documents import FailsFast

VISIBILITY_TIMEOUT_S = 90.0
"""NFS caches directories for up to 60 s (acdirmax in nfs(5)); the latency-wait of the cluster profiles."""

POLL_S = 0.5

EXHAUSTED = "space exhausted"
"""The end reason of a search without further candidates."""


class Receipt(FailsFast, BaseModel):
    """The state of one kernel's search, including earlier runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    schema_version: int = 1
    workload: str
    name: str
    place: TuningContext
    flops: float
    trials: int
    """Number of candidates measured in all runs."""
    measured_now: int
    """Number of candidates measured by the job that wrote this receipt."""
    stopped: str
    """The end reason: ``budget``, ``early stopping``, ``deadline`` or :data:`EXHAUSTED`."""
    by_status: dict[Status, int]
    comparison: Digest | None = None
    """Digest of the interleaved comparison of the best candidates; None if there was none."""
    curve: list[tuple[int, float]]
    """The improvements: trial number and latency in ms."""
    points: tuple[SizePoint, ...] = Field(default=(), exclude_if=lambda points: not points)
    """The sizes of dynamic dimensions at which the candidates were measured."""

    @property
    def is_exhausted(self) -> bool:
        """Whether all candidates of the kernel are measured."""
        return self.stopped == EXHAUSTED

    @property
    def records(self) -> int:
        """Number of the kernel's records when this was written, including lost devices."""
        return sum(self.by_status.values())

    @property
    def best_ms(self) -> float | None:
        """The best latency so far, in ms."""
        return self.curve[-1][1] if self.curve else None

    def best_at(self, trials: int) -> float | None:
        """Return the best latency after a number of trials, in ms."""
        reached = [latency for trial, latency in self.curve if trial <= trials]
        return reached[-1] if reached else None


def curve(records: Sequence[StoredRecord]) -> list[tuple[int, float]]:
    """Return the improving trials of a store's records, in the order of measurement."""
    steps: list[tuple[int, float]] = []
    for number, stored in enumerate(records, start=1):
        latency = stored.latency_ms
        if latency is not None and (not steps or latency < steps[-1][1]):
            steps.append((number, latency))
    return steps


def records_of_receipt(
    store: RecordStore,
    context: TuningContext,
    workload: str,
    receipt: Receipt | None,
    timeout_s: float = VISIBILITY_TIMEOUT_S,
    points: Sequence[SizePoint] = (),
) -> tuple[list[StoredRecord], Comparison | None]:
    """Return the records that a workload's receipt counts, once they (or at least the best) are visible, and its comparison.

    Records are only appended, so these are the first ones. If some were pruned, later ones may replace them. Without a
    receipt, or with one of another context, all records and the last comparison are returned.

    Args:
        timeout_s: time to wait for records that are not visible yet.
        points: without a receipt, the sizes of dynamic dimensions at which the records were measured.

    Raises:
        MachineError: the records do not become visible in time, or the store cannot be read.
    """
    until = time.monotonic() + timeout_s
    while True:
        stored = of_sizes(store.load(context, workload), receipt.points if receipt else points)
        comparisons = store.comparisons(context, workload)
        if receipt is None or receipt.place != context:
            return stored, latest_comparison(comparisons)
        comparison = comparisons.get(receipt.comparison) if receipt.comparison else None
        is_compared = receipt.comparison is None or comparison is not None
        if is_compared and _are_visible(stored, receipt):
            return stored[: receipt.records], comparison
        directory = store.journal(context, workload).directory
        if time.monotonic() > until:
            raise MachineError(
                str(directory),
                f"has {len(stored)} of the {receipt.records} records that the tuning of {receipt.name} left"
                + ("" if is_compared else ", and lacks the comparison of the best ones"),
                "have all machines use one records store (tuning.store, TVMAKE_HOME); if records were removed on purpose,"
                " remove results/tuning as well, and the kernels are tuned again",
            )
        for seen in (directory.parent, directory):
            with suppress(OSError):
                os.listdir(seen)  # noqa: PTH208  # opening a directory makes NFS ask its server
        time.sleep(min(POLL_S, timeout_s))


def _are_visible(stored: list[StoredRecord], receipt: Receipt) -> bool:
    if len(stored) >= receipt.records:
        return True
    measured = (statistics.median(record.samples_s) * 1e3 for record in stored if record.status == "ok")
    best = min(measured, default=None)
    # Pruning keeps the best records.
    return best is not None and receipt.best_ms is not None and best <= receipt.best_ms
