"""``validation:`` and ``goals:`` — comparison of a package with its source model, and bounds on the package.

Default goals are numerical and depend on the precision. They are independent of scale, because outputs may be logits of
size 10, probabilities or pixel coordinates: errors are relative to the power (dB) or the RMS of the reference output in
the same sample.

float32: 60 dB (an error of 0.1 % of the RMS), and at most 1 % of the RMS for any element. Reordered sums differ by a few
units of 2^-24, and deep networks amplify this: correct builds of image networks reach 83 dB (ResNet-50 with random
weights) to 127 dB (a small trained network), with worst elements at 3e-4 to 3e-6 of the RMS. One wrong element of
ordinary size has an error of about 1. For well-conditioned networks ``rtol: 1e-4`` and ``atol: 1e-5`` are usual.

tf32: only the operands of multiplications are rounded, as in float16 (2^-11, 73 dB for one layer). The goals equal those
of float16_acc32.

float16: one rounding to float16 (unit roundoff 2^-11) gives about 73 dB. A sum of K terms in float16 loses about
10·log10(K) dB more if errors are independent, 35 dB for the 3×3×512 convolutions of common networks, and errors of
layers add up: a trained network of a few layers reaches 50 dB, ResNet-18 with random weights 26 dB, MobileNetV2 19 dB.
15 dB (an error of 18 % of the RMS) distinguishes a correct network from a wrong kernel, which stays below 10 dB. It does
not show whether the precision is sufficient for an application; with labelled data, ``top1_drop`` does. A cosine of 0.98
is the equivalent bound on direction: 1 − cos ≈ 10^(−dB/10)/2 for an error independent of the signal.

float16_acc32: sums are in float32, and only activations and weights are rounded. L layers lose about 10·log10(L) dB more
than one rounding, which leaves 73 − 20 dB for a hundred layers that amplify nothing. Measured: 61 dB (small, trained),
44 dB (ResNet-18, random weights) and 27 dB (MobileNetV2, random weights). Goals: 20 dB and a cosine of 0.99.

int8: rounding to 8 bits gives about 48 dB if values use the range evenly, and less if the range exceeds the usual values;
errors of layers add up. 10 dB and a cosine of 0.95 distinguish a quantised network from a wrong one; ``top1_drop`` shows
whether it is sufficient.

int8_weights: only weights are rounded, which gives 41 dB for normally distributed weights; errors of layers add up. 20 dB
and a cosine of 0.99 distinguish a correct network from a wrong one.

int4_weights: 20 dB per layer with a scale for 32 weights, 18 dB for 64; small trained networks reach 12 to 25 dB. Goals:
8 dB and a cosine of 0.92. ``top1_drop`` shows whether 4 bits are sufficient.

auto: the goals determine the choice. Default: 20 dB (an error of a tenth of the RMS) and a cosine of 0.99.

A quantised source rounds to 8 bits at every precision: a value halfway between two steps may be rounded either way, and
later layers amplify the difference. A digits network of QOperators reaches 55 dB. The same holds for a source that
computes in bfloat16, whose significands have 8 bits: one to eight linear layers in PyTorch's autocast differ from their
float64 results by 47 to 52 dB in PyTorch itself, and by 51 to 57 dB in the package. For these sources float32, tf32 and
float16_acc32 have the default goals of auto, which still detect a wrong kernel (below 10 dB). A source that computes in
float16 and returns bytes rounds at other positions than a fused kernel: 4 to 9 % of the pixels of an image differ by 1 of 255.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from tvmake.config.base import Name, Repetitions
from tvmake.options import Positive, Strict
from tvmake.transform.options import PythonName

Bound = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Decibel = Annotated[float, Field(ge=0, le=200)]


Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PercentileName = Annotated[str, StringConstraints(pattern=r"^p(\d{1,2}(\.\d+)?|100)$")]


def _median(value: Any) -> Any:
    if isinstance(value, dict) or value is None:
        return value
    return {"p50": str(value).lower() if isinstance(value, bool) else value}  # true is a number to Python


class Metric(Strict):
    """A custom metric over all samples, computed for the package and for the source model, and its bounds."""

    use: PythonName
    """A function, as ``package.module:function``, that takes the samples and returns a number. Modules are imported from the
    environment, then from the working directory. A sample has ``inputs``, ``outputs`` and ``truth`` (arrays by name) and
    ``labels``."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the function."""
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Smallest value for the package."""
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Largest value for the package."""
    within: Bound | None = None
    """Largest difference from the source model's value, in either direction."""

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are set, by key."""
        return {key: value for key in ("at_least", "at_most", "within") if (value := getattr(self, key)) is not None}

    @model_validator(mode="after")
    def _check_bounds(self) -> "Metric":
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self


class Goals(Strict):
    """Bounds on numerics, latency and size. A goal left out keeps its default for the precision; null drops it.

    A goal that cannot be measured (an accuracy without labels, top-1 without a [batch, classes] output, a speed-up without a
    baseline) is missed. Goals on latency and memory apply only to packages that run on a device.
    """

    rtol: Bound | None = None
    """Every element must satisfy |got − reference| ≤ atol + rtol·|reference|."""
    atol: Bound | None = None
    """The absolute part of this bound. Without ``rtol`` and ``atol`` there is no element-wise goal."""
    max_abs: Bound | None = None
    """Largest absolute error."""
    max_abs_rms: Bound | None = None
    """Largest absolute error, as a fraction of the RMS of the reference output in the same sample. Detects a single wrong
    element at any scale of the outputs."""
    max_rel: Bound | None = None
    """Largest relative error; references below 1 % of the output's maximum count as that 1 %."""
    cosine: Cosine | None = None
    """Smallest cosine similarity between package and reference, for every output of every sample."""
    sqnr_db: Decibel | None = None
    """Smallest signal-to-quantisation-noise ratio in dB, for every output of every sample."""
    equal: Fraction | None = None
    """Smallest fraction of equal elements in integer and boolean outputs. The other error goals do not apply to these."""
    equal_within_step: Fraction | None = None
    """Smallest fraction of equal elements in an 8-bit output whose other elements are all one step apart; such an output need
    not meet ``equal``. Set by default for a source that rounds."""
    top1_agreement: Fraction | None = None
    """Smallest fraction of rows in which package and reference predict the same class."""
    top5_agreement: Fraction | None = None
    """Smallest mean overlap of the top five classes of package and reference."""
    top1_drop: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Largest loss of top-1 accuracy against the reference (0.005 is half a percentage point). Needs labels."""
    top1: Fraction | None = None
    """Smallest top-1 accuracy. Needs labels."""
    repeatable: bool | None = None
    """Two runs with the same input must give identical bits; detects reads of uninitialised memory."""
    metrics: dict[Name, Metric] | None = None
    """Custom metrics, by name, with their bounds; a metric without bounds is only reported."""
    latency_ms: Annotated[dict[PercentileName, Size], BeforeValidator(_median)] | None = None
    """Largest median latency, or largest latencies by percentile (``{p50: 5, p99: 9}``)."""
    speedup: Size | None = None
    """Smallest speed-up over the baseline: the source model in its own framework on the same machine."""
    package_mb: Size | None = None
    """Largest size of package.tar, in MB of 10^6 bytes."""
    peak_memory_mb: Size | None = None
    """Largest peak resident memory of the process that runs the package, in MB of 10^6 bytes."""
    load_ms: Size | None = None
    """Longest time to load the package until it is ready to run."""

    @field_validator("metrics")
    @classmethod
    def _check_names(cls, value: dict[str, Metric] | None) -> dict[str, Metric] | None:
        for name in value or ():
            if name in cls.model_fields:
                raise ValueError(f"{name!r} is one of tvmake's own goals; rename the metric")
        return value

    @property
    def numeric(self) -> "Goals":
        """The goals on outputs."""
        return self.model_copy(update=dict.fromkeys(PERFORMANCE))

    @property
    def performance(self) -> "Goals":
        """The goals on latency, memory and size."""
        return Goals(**{name: getattr(self, name) for name in PERFORMANCE})

    def updated(self, other: "Goals") -> "Goals":
        """Return these goals, overridden by the goals that ``other`` sets, including null."""
        changes = {name: getattr(other, name) for name in Goals.model_fields if name in other.model_fields_set}
        return self.model_copy(update=changes)


PERFORMANCE = ("latency_ms", "speedup", "package_mb", "peak_memory_mb", "load_ms")


class PrecisionGoals(Goals):
    """Goals for all precisions, and overrides for some."""

    per_precision: dict[str, Goals] = Field(default_factory=dict)
    """Goals for one of ``float32``, ``tf32``, ``float16``, ``float16_acc32``, ``int8``, ``int8_weights``, ``int4_weights`` and
    ``auto``; they override the general goals. A custom precision uses those of its ``base``."""

    @field_validator("per_precision")
    @classmethod
    def _known(cls, value: dict[str, Goals]) -> dict[str, Goals]:
        for name in value:
            if name not in DEFAULT_GOALS:
                raise ValueError(f"no such precision {name!r}; known: {', '.join(DEFAULT_GOALS)}")
        return value


DEFAULT_GOALS: dict[str, Goals] = {
    "float32": Goals(sqnr_db=60.0, max_abs_rms=1e-2, equal=1.0, repeatable=True),
    "tf32": Goals(sqnr_db=20.0, cosine=0.99, equal=0.99, repeatable=True),
    "float16": Goals(sqnr_db=15.0, cosine=0.98, equal=0.99, repeatable=True),
    "int8": Goals(sqnr_db=10.0, cosine=0.95, equal=0.9, repeatable=True),
    "float16_acc32": Goals(sqnr_db=20.0, cosine=0.99, equal=0.99, repeatable=True),
    "int8_weights": Goals(sqnr_db=20.0, cosine=0.99, equal=0.95, repeatable=True),
    "int4_weights": Goals(sqnr_db=8.0, cosine=0.92, equal=0.9, repeatable=True),
    "auto": Goals(sqnr_db=20.0, cosine=0.99, equal=0.95, repeatable=True),
}
"""Default goals per precision; the module's docstring explains them."""

WITHIN_STEP = 0.8
"""Share of equal elements in 8-bit outputs of a source that rounds, if all others are one step apart: ties go either way. An
error of the same sign everywhere has fewer."""

AS_THE_SOURCE_ROUNDS = ("float32", "tf32", "float16_acc32")
"""Precisions in which a quantised source has the default goals of auto."""


class ValidationOptions(Strict):
    """Random inputs of models without a dataset, and the goals of all models."""

    samples: Repetitions = 16
    """Number of random inputs for a model without a dataset. With two or more, the comparison also checks that the outputs
    depend on the inputs."""
    seed: int = Field(default=0, ge=0)
    """Seed of the random inputs."""
    steps: int = Field(default=0, ge=0)
    """Samples in a sequence, for models with states: they restart with each sequence. 0: all samples are one."""
    operators: bool = False
    """Also compare the result of each operator with the original network's, for the first sample; the page shows its noise. Plain
    loops compute them, in about 50 times the package's time."""
    dims: dict[str, Positive] = Field(default_factory=dict)
    """Sizes, by name, of dynamic dimensions in a package; by default 1, or the smallest allowed size. A model's own ``dims``
    override them."""
    goals: PrecisionGoals = PrecisionGoals()
    """Goals of all models; a model's own ``goals`` override them."""


def default_goals(precision: str, is_quantized: bool = False) -> Goals:
    """Return the default goals.

    Args:
        is_quantized: whether the source rounds activations itself, to integers, to bfloat16, or to float16 before it
            returns bytes.
    """
    goals = DEFAULT_GOALS["auto" if is_quantized and precision in AS_THE_SOURCE_ROUNDS else precision]
    return goals.model_copy(update={"equal_within_step": WITHIN_STEP}) if is_quantized else goals


def goals_for(precision: str, *levels: PrecisionGoals | None, is_quantized: bool = False) -> Goals:
    """Return the goals of one model at one precision: the defaults, overridden by each level in order.

    Usually called as ``goals_for(precision, validation.goals, model.goals)``.

    Args:
        is_quantized: whether the source rounds activations itself, to integers or to bfloat16.
    """
    goals = default_goals(precision, is_quantized)
    for level in levels:
        if level is not None:
            goals = goals.updated(level)
            if precision in level.per_precision:
                goals = goals.updated(level.per_precision[precision])
    return goals
