"""``tuning:`` — budget of the search for fast schedules, and measurement of candidates."""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.config.base import Directory, LocalPath, Repetitions
from tvmake.options import Positive, Strict

Count = Annotated[int, Field(ge=0)]

MOST_TRIALS = 10_000_000
"""The largest number of candidates: more than a year of measuring."""

Trials = Annotated[int, Field(ge=0, le=MOST_TRIALS)]
PositiveTrials = Annotated[int, Field(ge=1, le=MOST_TRIALS)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
CostModel = Literal["xgb", "random"]


class TrialMeasurement(Strict):
    """Measurement of one candidate kernel, in the terms of TVM's ``time_evaluator``."""

    number: Repetitions = 1
    """Minimum number of runs averaged into one sample."""
    repeat: Repetitions = 3
    """Samples per candidate."""
    min_repeat_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    """Increase ``number`` until one sample takes this long, in ms."""
    cooldown_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Pause between samples, for devices that throttle, in ms."""
    timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Time limit for loading and timing one candidate, in seconds."""
    build_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Time limit for building one candidate, in seconds."""
    builders: Positive | None = None
    """Number of parallel builds of candidates; by default the number of the job's cores."""


class ModelTuning(Strict):
    """One model's overrides of the general budget."""

    trials: Trials | None = None
    """Candidates to measure for each of its variants; 0 leaves its kernels unscheduled."""
    trials_per_kernel: PositiveTrials | None = None
    """Candidates to measure for each kernel, instead of distributing ``trials``."""
    floor: PositiveTrials | None = None
    """Minimum number of candidates of each kernel."""
    kernels: list[Text] | None = None
    """Tune only these kernels."""
    require_coverage: Share | None = None
    """Fail a build if records cover less than this fraction of the kernels' estimated time."""


class TuningOptions(Strict):
    """The trial budget, its distribution, and the use of the records."""

    trials: Trials = 0
    """Candidates to measure per variant, distributed over its kernels by their work; 0 uses only the target's schedule rules."""
    trials_per_kernel: PositiveTrials | None = None
    """Candidates to measure for each kernel, instead of distributing ``trials``."""
    floor: PositiveTrials = 16
    """Minimum number of candidates of each kernel when ``trials`` are distributed."""
    kernels: list[Text] = Field(default_factory=list)
    """Tune only these kernels, by the names in `tvmake records list` and in the report; ``*`` matches anything (``fused_conv2d*``).
    All by default. Other kernels keep their records and get no trials."""
    layout_trials: PositiveTrials = 32
    """Candidates to measure for each kernel with which ``transform.layout: auto`` compares layouts. They count as trials of
    the chosen layout."""
    rounds: Annotated[int, Field(ge=1, le=8)] = 2
    """Number of portions of the budget; each portion goes to the kernels that gained most in the earlier ones."""
    cost_model: CostModel = "xgb"
    """The model that predicts which candidates are worth measuring."""
    batch: Positive = 16
    """Candidates measured together; the search continues from their results."""
    population: Positive = 64
    """Population of the evolutionary search; more candidates take more search time."""
    finalists: Count = 4
    """Number of a kernel's best candidates, including the schedule of the target's rules, that are timed again, interleaved,
    at the end; two for fewer than 24 candidates. 0 turns this off."""
    early_stopping: Positive | None = None
    """Stop a kernel after this many candidates without improvement."""
    seed: Annotated[int, Field(ge=0, lt=2**31 - 1)] = 0
    """Seed of the search; the same seed repeats it, except for differences in measured times."""
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    """Stop a kernel after this many seconds."""
    warm_start: bool = True
    """First measure the schedule of the target's rules and those of similar kernels in the store, and train the cost model
    with the records of the target's other kernels."""
    require_coverage: Share | None = None
    """Fail a build if records cover less than this fraction of the kernels' estimated time."""
    measure: TrialMeasurement = TrialMeasurement()
    """Building and timing of candidates."""
    untuned: list[Text] = Field(default_factory=list)
    """Kernels to build without a record, by name (``fused_conv2d_add``), such as one that a device's driver refuses."""
    store: Directory | None = None
    """Directory of the records; by default the user's data directory (``$TVMAKE_HOME/records``)."""
    shared: Directory | None = None
    """A second store to read from and add to: a directory, or a URL that fsspec understands (``s3://bucket/path``)."""
    frozen: LocalPath | None = None
    """A lock (``run.lock``): build with exactly its records, without measuring or a device."""

    @property
    def is_wanted(self) -> bool:
        """Whether tuning is on."""
        return self.trials > 0 or self.trials_per_kernel is not None
