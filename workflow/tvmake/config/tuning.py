"""``tuning:`` — how much to search for fast schedules, and how candidates are measured."""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.config.base import Directory, LocalPath, Repetitions
from tvmake.options import Positive, Strict

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
Strategy = Literal["evolutionary", "replay-trace", "replay-func", "random", "grid"]
CostModel = Literal["xgb", "random"]


class TrialMeasurement(Strict):
    """How one candidate kernel is timed, in the terms of TVM's ``time_evaluator``."""

    number: Repetitions = 1
    """Runs averaged into one sample, at least."""
    repeat: Repetitions = 3
    """Samples per candidate."""
    min_repeat_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    """Raise ``number`` until one sample takes this long, in ms."""
    cooldown_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Pause between samples, for devices that throttle, in ms."""
    timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """How long loading and timing one candidate may take, in seconds."""
    build_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """How long building one candidate may take, in seconds."""
    builders: Positive | None = None
    """Candidates built at once; by default as many as the job has cores."""


class ModelTuning(Strict):
    """One model's own budget, over the general one."""

    trials: Count | None = None
    """Candidates to measure for each of its variants; 0 leaves its kernels unscheduled."""
    trials_per_kernel: Positive | None = None
    """Candidates to measure for each kernel, instead of spreading ``trials``."""
    floor: Positive | None = None
    """Candidates that even the cheapest kernel gets."""
    kernels: list[Text] | None = None
    """Tune these kernels only."""
    require_coverage: Share | None = None
    """Fail a build when records cover less than this share of the kernels' estimated time."""


class TuningOptions(Strict):
    """A budget, how to spend it, and what to do with the result."""

    trials: Count = 0
    """Candidates to measure per variant, spread over its kernels by the work in them; 0 leaves kernels to the rules of their target."""
    trials_per_kernel: Positive | None = None
    """Candidates to measure for each kernel, instead of spreading ``trials``."""
    floor: Positive = 16
    """Candidates that even the cheapest kernel gets when ``trials`` are spread."""
    kernels: list[Text] = Field(default_factory=list)
    """Tune these kernels only, by the names that `tvmake records list` and the report show; ``*`` stands for anything (``fused_conv2d*``).
    All are tuned when left out. The others keep the records that they have, and what they cost counts for nobody."""
    layout_trials: Positive = 32
    """Candidates to measure for each kernel that ``transform.layout: auto`` compares layouts by. They count as trials of
    the layout that is chosen."""
    rounds: Annotated[int, Field(ge=1, le=8)] = 2
    """Portions in which the budget is spent; each later one goes where the earlier ones showed that it pays most."""
    strategy: Strategy = "evolutionary"
    """How candidates are chosen. ``grid`` tries every candidate of small spaces."""
    cost_model: CostModel = "xgb"
    """What predicts which candidates are worth measuring."""
    batch: Positive = 16
    """Candidates measured together; the search goes on from what they show."""
    population: Positive = 64
    """Candidates kept in mind by the evolutionary strategy; more cost search time."""
    finalists: Count = 4
    """The best candidates of a kernel are timed once more, in turns, when all are measured: this many, the schedule of the target's rules
    among them; of fewer than 24 candidates two. 0 leaves that out."""
    early_stopping: Positive | None = None
    """Stop a kernel after this many candidates without a better one."""
    seed: Annotated[int, Field(ge=0, lt=2**31 - 1)] = 0
    """Seed of the search; the same one repeats it as far as measured times allow, interrupted or not."""
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    """Stop a kernel after this many seconds."""
    warm_start: bool = True
    """Begin with what is known: measure the schedule of the target's rules and those of similar kernels in the store first, and
    teach the cost model the records of the target's other kernels."""
    require_coverage: Share | None = None
    """Fail a build when records cover less than this share of the kernels' estimated time."""
    measure: TrialMeasurement = TrialMeasurement()
    """How candidates are built and timed."""
    untuned: list[Text] = Field(default_factory=list)
    """Kernels to build without a record, by name (``fused_conv2d_add``): for one that a device's driver refuses."""
    store: Directory | None = None
    """Directory of the records; by default the user's data directory (``$TVMAKE_HOME/records``)."""
    shared: Directory | None = None
    """A further store to read from and to add to: a directory, or a URL that fsspec understands (``s3://bucket/path``)."""
    frozen: LocalPath | None = None
    """A lock (``run.lock``): build with exactly the records it names, and measure nothing. No device is needed."""

    @property
    def is_wanted(self) -> bool:
        """Whether anything is to be tuned."""
        return self.trials > 0 or self.trials_per_kernel is not None
