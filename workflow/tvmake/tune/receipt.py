"""What a tuning job leaves as its output: that a kernel has its budget, and how the search went.

The records themselves are in the store.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from tvmake.records.record import Place, Status
from tvmake.records.store import StoredRecord


class Receipt(BaseModel):
    """One kernel's search so far, earlier runs included."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    schema_version: int = 1
    workload: str
    name: str
    place: Place
    flops: float
    trials: int
    """Candidates measured, in all runs."""
    measured_now: int
    """Candidates measured by the job that wrote this."""
    stopped: str
    """Why the search ended: ``budget``, ``early stopping``, ``deadline`` or ``space exhausted``."""
    by_status: dict[Status, int]
    curve: list[tuple[int, float]]
    """Where the search got better: trial number and latency in ms."""

    @property
    def records(self) -> int:
        """Records of the kernel that there were when this was written, those of lost devices too."""
        return sum(self.by_status.values())

    @property
    def best_ms(self) -> float | None:
        """The best latency so far, in ms."""
        return self.curve[-1][1] if self.curve else None

    def best_at(self, trials: int) -> float | None:
        """The best latency after so many trials, in ms."""
        reached = [latency for trial, latency in self.curve if trial <= trials]
        return reached[-1] if reached else None


def curve(records: Sequence[StoredRecord]) -> list[tuple[int, float]]:
    """The improving trials of a store's records, in the order they were measured."""
    steps: list[tuple[int, float]] = []
    for number, stored in enumerate(records, start=1):
        latency = stored.latency_ms
        if latency is not None and (not steps or latency < steps[-1][1]):
            steps.append((number, latency))
    return steps
