"""The result of measuring a baseline."""

from pydantic import BaseModel, ConfigDict, Field

from tvmake.benchmark.statistics import LatencyStatistics, SampleMs
from tvmake.storage.documents import FailsFast


class Baseline(FailsFast, BaseModel):
    """The source model in its framework, on the package's first sample, with the same threads, alternating with the package.

    ``samples_ms`` are in order of measurement, means of ``number`` runs each. ``load_ms`` is the time from the beginning of
    loading until it can run; ``warmup_ms`` are the runs that do not count: those before the first sample, and the first ones
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
    steps_ms: list[list[SampleMs]] = Field(default_factory=list, exclude_if=lambda steps: not steps)
    """Of a model with states: the time of each step, by sequence."""


class NoBaseline(FailsFast, BaseModel):
    """Why there is none, though it was to be measured."""

    model_config = ConfigDict(extra="forbid")

    problem: str
    """In one line."""
    remedy: str | None = None
