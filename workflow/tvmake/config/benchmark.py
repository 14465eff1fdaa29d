"""``benchmark:`` — how latency is measured.

Two profiles. ``quick`` gives a first figure in about a second for a small model. ``mlperf-like`` follows the
single-stream scenario of MLPerf Inference (Reddi et al., arXiv:1911.02549; percentile and counts as in mlperf.conf of
github.com/mlcommons/inference): at least 1,024 sequential queries, judged by the 90th percentile. It lasts at least
60 s; current MLPerf rules require 600 s (``min_duration_s: 600``). It is not a submission: it uses neither LoadGen nor
MLPerf's models.
"""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.config.base import Repetitions
from tvmake.options import Strict

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Measurement(Strict):
    """One complete measurement loop, in the terms of TVM's ``time_evaluator``."""

    warmup: Count = 3
    """Runs before the first sample, recorded separately."""
    number: Repetitions = 1
    """Runs averaged into one sample. Percentiles describe single runs only if this is 1."""
    repeat: Repetitions = 20
    """Minimum number of samples."""
    min_duration_s: Seconds = 0.0
    """Continue sampling until this much time has been measured."""
    min_repeat_ms: Milliseconds = 0.0
    """Increase ``number`` until one sample takes this long; for kernels shorter than the clock's resolution."""
    cooldown_s: Seconds = 0.0
    """Pause between samples, for devices that throttle."""
    percentile: Literal["p50", "p90", "p99"] = "p50"
    """The statistic that ranks and compares results."""
    profile_ops: bool = False
    """Also measure every kernel, in separate runs."""
    noise_cv: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    """Report a measurement as noisy from this coefficient of variation (standard deviation / mean) or drift."""


PROFILES: dict[str, Measurement] = {
    "quick": Measurement(),
    "mlperf-like": Measurement(warmup=10, repeat=1024, min_duration_s=60.0, percentile="p90", profile_ops=True),
}


class BenchmarkOptions(Strict):
    """A profile and overrides of its fields."""

    profile: Literal["quick", "mlperf-like"] = "quick"
    """The profile whose fields are the defaults."""
    baseline: bool = True
    """Measure the source model in its own framework (ONNX Runtime, torch, LiteRT), interleaved with each package. Only for
    packages that run on this machine's CPU."""
    warmup: Count | None = None
    """Runs before the first sample."""
    number: Repetitions | None = None
    """Runs averaged into one sample."""
    repeat: Repetitions | None = None
    """Minimum number of samples."""
    min_duration_s: Seconds | None = None
    """Continue sampling until this much time has been measured."""
    min_repeat_ms: Milliseconds | None = None
    """Increase ``number`` until one sample takes this long."""
    cooldown_s: Seconds | None = None
    """Pause between samples."""
    percentile: Literal["p50", "p90", "p99"] | None = None
    """The statistic that ranks and compares results."""
    profile_ops: bool | None = None
    """Also measure every kernel."""
    noise_cv: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Coefficient of variation from which a measurement is reported as noisy."""

    def measurement(self) -> Measurement:
        """Return the profile with the fields that are set here."""
        changes = self.model_dump(exclude={"profile", "baseline"}, exclude_none=True)
        return PROFILES[self.profile].model_copy(update=changes)
