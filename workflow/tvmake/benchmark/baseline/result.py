"""What the measurement of a baseline gives."""

from pydantic import BaseModel, ConfigDict, Field

from tvmake.benchmark.statistics import LatencyStatistics, SampleMs
from tvmake.storage.documents import FailsFast


class Baseline(FailsFast, BaseModel):
    """The source model in its framework, on the package's first sample, with as many threads, by turns with the package.

    ``samples_ms`` are in the order they were taken, each the mean of ``number`` runs. ``load_ms`` is from the beginning of
    loading to being ready; ``warmup_ms`` are the runs that do not count: those before the first sample, and the first ones
    of each turn.
    """

    model_config = ConfigDict(extra="forbid")

    framework: str
    """Library and version."""
    threads: int = Field(ge=1)
    load_ms: float
    first_run_ms: float
    number: int = Field(ge=1)
    warmup_ms: list[float]
    samples_ms: list[SampleMs] = Field(min_length=1)
    statistics: LatencyStatistics


class NoBaseline(FailsFast, BaseModel):
    """Why there is none, though it was to be measured."""

    model_config = ConfigDict(extra="forbid")

    problem: str
    """In one line."""
    remedy: str | None = None
