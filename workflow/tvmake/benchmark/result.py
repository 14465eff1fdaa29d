"""The output of the benchmark stage: raw samples, and figures computed from them."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.benchmark.ops import KernelRow
from tvmake.benchmark.statistics import (
    LatencyComparison,
    LatencyStatistics,
    SampleMs,
    compare_latency,
    latency_statistics,
)
from tvmake.config.benchmark import Measurement
from tvmake.storage.documents import FailsFast

Condition = str | int | float | bool | None


class LatencyReport(FailsFast, BaseModel):
    """The measurement of one package on one device.

    ``samples_ms`` are in order of measurement, means of ``number`` runs each; ``min_repeat_ms`` may have raised ``number`` above
    the measurement's. ``load_ms`` is the time from opening the package until it can run, ``first_run_ms`` the first run, which includes
    lazy compilation and uploads. ``conditions`` may explain differences: governor, temperature, threads, load of the machine.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    measurement: Measurement
    number: int = Field(ge=1)
    load_ms: float | None = None
    first_run_ms: float | None = None
    warmup_ms: list[float] = []
    samples_ms: list[SampleMs] = Field(min_length=1)
    statistics: LatencyStatistics
    peak_memory_bytes: int | None = None
    steps_ms: list[list[SampleMs]] = Field(default_factory=list, exclude_if=lambda steps: not steps)
    """Of a package with states: the time of each step, by sequence."""
    ops: list[KernelRow] = []
    conditions: dict[str, Condition] = {}

    @property
    def latency_ms(self) -> float:
        """The figure that results are ranked by: the measurement's percentile."""
        return self.statistics.percentile_ms(self.measurement.percentile)


class ShapeLatency(FailsFast, BaseModel):
    """The measurement of one of a package's shapes, on random inputs; as :class:`LatencyReport`."""

    model_config = ConfigDict(extra="forbid")

    sizes: dict[str, int]
    """Sizes of dynamic dimensions, by name."""
    how: str = Field(default="", exclude_if=lambda how: not how)
    """How functions for other sizes compute it (``padded to 8``); empty if it has code of its own."""
    number: int = Field(ge=1)
    samples_ms: list[SampleMs] = Field(min_length=1)
    statistics: LatencyStatistics


class Latency(FailsFast, BaseModel):
    """latency.json: raw samples and statistics of a package on a device, and of the baseline if requested."""

    model_config = ConfigDict(extra="forbid")

    report: LatencyReport
    package_sha256: str
    baseline_memory_bytes: int
    """The runtime's own memory, before the package was loaded."""
    fingerprint: Fingerprint
    baseline: Baseline | NoBaseline | None = None
    """The source model in its own framework, or the reason without figures; None if it was not requested."""
    shapes: list[ShapeLatency] = Field(default_factory=list, exclude_if=lambda shapes: not shapes)
    """By shape, for a package with code for several."""

    @property
    def speedup(self) -> LatencyComparison | None:
        """The package relative to the baseline, by the measurement's percentile: ``ratio`` is the baseline's latency over the
        package's, above 1 if the package is faster. None without a baseline."""
        if not isinstance(self.baseline, Baseline):
            return None
        measured = self.report
        return compare_latency(
            measured.samples_ms, self.baseline.samples_ms, percentile=measured.measurement.percentile
        )


def latency_report(
    measurement: Measurement,
    samples_ms: Sequence[float],
    *,
    number: int | None = None,
    load_ms: float | None = None,
    first_run_ms: float | None = None,
    warmup_ms: Sequence[float] = (),
    peak_memory_bytes: int | None = None,
    steps_ms: Sequence[Sequence[float]] = (),
    ops: Sequence[KernelRow] = (),
    conditions: Mapping[str, Condition] | None = None,
) -> LatencyReport:
    """Make a report from raw samples.

    Raises:
        ValueError: there are no samples, or one is negative or not finite.
    """
    return LatencyReport(
        measurement=measurement,
        number=number or measurement.number,
        load_ms=load_ms,
        first_run_ms=first_run_ms,
        warmup_ms=list(warmup_ms),
        samples_ms=list(samples_ms),
        statistics=latency_statistics(samples_ms, measurement.noise_cv),
        peak_memory_bytes=peak_memory_bytes,
        steps_ms=list(map(list, steps_ms)),
        ops=list(ops),
        conditions=dict(conditions or {}),
    )
