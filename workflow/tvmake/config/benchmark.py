"""``benchmark:`` — how latency is measured.

Two profiles. ``quick`` gives a first figure in about a second for a small model. ``mlperf-like`` follows the
single-stream scenario of MLPerf Inference (Reddi et al., arXiv:1911.02549; percentile and counts as in mlperf.conf of
github.com/mlcommons/inference): one query after the other, at least 1,024 of them, judged by the 90th percentile. It
lasts at least 60 s where current MLPerf rules ask for 600 s; set ``min_duration_s: 600`` for those. It is not a
submission: it uses neither LoadGen nor MLPerf's models.
"""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.config.base import Repetitions
from tvmake.options import Strict

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Measurement(Strict):
    """One complete measurement loop, as TVM's ``time_evaluator`` understands it."""

    warmup: Count = 3
    """Runs before the first sample, kept apart."""
    number: Repetitions = 1
    """Runs averaged into one sample. Percentiles are of single runs only when this is 1."""
    repeat: Repetitions = 20
    """Samples to take, at least."""
    min_duration_s: Seconds = 0.0
    """Go on taking samples until this much time has been measured."""
    min_repeat_ms: Milliseconds = 0.0
    """Raise ``number`` until one sample takes this long; for kernels shorter than the clock's resolution."""
    cooldown_s: Seconds = 0.0
    """Pause between samples, for devices that throttle."""
    percentile: Literal["p50", "p90", "p99"] = "p50"
    """The statistic by which results are ranked and compared."""
    profile_ops: bool = False
    """Also measure every kernel on its own, in separate runs."""
    noise_cv: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    """Call a measurement noisy from this coefficient of variation (standard deviation / mean) or drift on."""


PROFILES: dict[str, Measurement] = {
    "quick": Measurement(),
    "mlperf-like": Measurement(warmup=10, repeat=1024, min_duration_s=60.0, percentile="p90", profile_ops=True),
}


class BenchmarkOptions(Strict):
    """A profile, and whatever should differ from it."""

    profile: Literal["quick", "mlperf-like"] = "quick"
    """The measurement to start from."""
    baseline: bool = True
    """Measure the source model in its own framework (ONNX Runtime, torch, LiteRT) by turns with each package, where that is
    possible: for packages that run on this machine's CPU."""
    warmup: Count | None = None
    """Runs before the first sample."""
    number: Repetitions | None = None
    """Runs averaged into one sample."""
    repeat: Repetitions | None = None
    """Samples to take, at least."""
    min_duration_s: Seconds | None = None
    """Go on taking samples until this much time has been measured."""
    min_repeat_ms: Milliseconds | None = None
    """Raise ``number`` until one sample takes this long."""
    cooldown_s: Seconds | None = None
    """Pause between samples."""
    percentile: Literal["p50", "p90", "p99"] | None = None
    """The statistic by which results are ranked and compared."""
    profile_ops: bool | None = None
    """Also measure every kernel on its own."""
    noise_cv: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Coefficient of variation from which a measurement is called noisy."""

    def measurement(self) -> Measurement:
        """The profile with the fields set here in place of its own."""
        changes = self.model_dump(exclude={"profile", "baseline"}, exclude_none=True)
        return PROFILES[self.profile].model_copy(update=changes)
