"""``validation:`` and ``goals:`` — how a package is compared with its source model, and what it must reach.

Default goals are numeric, and depend on the precision. All of them are free of scale, because outputs may be logits of size 10, probabilities or pixel coordinates: errors are
measured against the power (dB) or the RMS of the reference's output in the same sample.

float32: 60 dB (an error of 0.1 % of the RMS) and no element off by more than 1 % of the RMS. Reordering sums costs a few
units of 2^-24, and deep networks amplify it: correct builds of image networks reach 83 dB (a ResNet-50 with drawn
weights) to 127 dB (a small trained one), their worst elements 3e-4 to 3e-6 of the RMS. One wrong element of ordinary
size is off by about 1. For a network known to be well-behaved, ``rtol: 1e-4`` and ``atol: 1e-5`` are usual.

tf32: what is multiplied is rounded as to float16, and nothing else: 2^-11, 73 dB for one layer. The goals are those of float16_acc32.

float16: one rounding to float16 (unit roundoff 2^-11) costs about 73 dB; a sum of K terms kept in float16 loses another
10·log10(K) dB or so when errors are independent, 35 dB for the 3×3×512 convolutions of common networks, and layers add
up: a trained network of a few layers reaches 50 dB, a ResNet-18 with drawn weights 26 dB, a MobileNetV2 19 dB. 15 dB (an
error of 18 % of the RMS) tells a correct network from a wrong kernel, which lands below 10 dB; it does not tell whether
the precision is good enough for you. With labelled data, ``top1_drop`` does. A cosine of 0.98 is the same statement about
direction: 1 − cos ≈ 10^(−dB/10)/2 for an error independent of the signal.

float16_acc32: sums are exact to float32, only activations and weights are rounded. L layers cost about 10·log10(L) dB
more than one rounding, which leaves 73 − 20 dB for a hundred layers that amplify nothing; measured are 61 dB (small,
trained), 44 dB (ResNet-18, drawn) and 27 dB (MobileNetV2, drawn). 20 dB and a cosine of 0.99.

int8: rounding to 8 bits of a range that is used evenly costs about 48 dB, less by what the range exceeds the usual values;
layers add up. 10 dB and a cosine of 0.95 tell a quantised network from a wrong one; whether it is good enough, ``top1_drop``
says.

int8_weights: only weights are rounded: 41 dB for normally distributed ones, and layers
add up; 20 dB and a cosine of 0.99 tell right from wrong. int4_weights: 20 dB a layer with a scale for 32 weights, 18 for 64; small
trained networks end at 12 to 25 dB. 8 dB and a cosine of 0.92. Whether 4 bits are good enough, ``top1_drop`` says.

auto: the goals decide what is chosen. Without goals of yours an error of a tenth of the RMS, 20 dB, and a cosine of 0.99.

A source that is quantised rounds to 8 bits at every precision: a value on the edge between two steps may go to either side, and the next
layers make more of it. Digits in QOperators come out at 55 dB. So does one that computes in bfloat16, whose numbers have 8 bits: one to eight linear layers in
PyTorch's autocast are 47 to 52 dB from their numbers in float64 in PyTorch itself, and 51 to 57 dB in the package. Float32, tf32 and float16_acc32 have the
default goals of auto then, which still tell a wrong kernel (below 10 dB).
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
    """A figure of your own over all samples, computed for the package and for the source model, and what it must reach."""

    use: PythonName
    """A function, as ``package.module:function``, that takes the samples and returns a number; modules are looked for among those
    installed, then in the working directory. A sample has ``inputs``, ``outputs`` and ``truth`` (arrays by name) and ``labels``."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the function."""
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The least that the package's figure may be."""
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The most that the package's figure may be."""
    within: Bound | None = None
    """How far the package's figure may be from the source model's, in either direction."""

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are set, by key."""
        return {key: value for key in ("at_least", "at_most", "within") if (value := getattr(self, key)) is not None}

    @model_validator(mode="after")
    def _bounded(self) -> "Metric":
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self


class Goals(Strict):
    """Bounds on numerics, latency and size. A goal left out keeps its default for the precision; null drops it.

    A goal that cannot be measured (an accuracy without labels, top-1 without a [batch, classes] output, a speed-up without a
    baseline) is missed. Latency and memory are of packages that run on a device; the others have no such goals.
    """

    rtol: Bound | None = None
    """Every element must satisfy |got − reference| ≤ atol + rtol·|reference|."""
    atol: Bound | None = None
    """The absolute part of the same bound. Without ``rtol`` and ``atol`` there is no element-wise goal."""
    max_abs: Bound | None = None
    """Largest absolute error allowed."""
    max_abs_rms: Bound | None = None
    """Largest absolute error allowed, as a share of the RMS of the reference's output in the same sample. Finds a
    single wrong element whatever the scale of the outputs."""
    max_rel: Bound | None = None
    """Largest relative error allowed; references below 1 % of an output's largest count as that 1 %."""
    cosine: Cosine | None = None
    """Smallest cosine similarity between got and reference, for every output of every sample."""
    sqnr_db: Decibel | None = None
    """Smallest signal-to-quantisation-noise ratio in dB, for every output of every sample."""
    equal: Fraction | None = None
    """Smallest share of equal elements in integer and boolean outputs, which no other error goal applies to."""
    top1_agreement: Fraction | None = None
    """Smallest share of rows in which package and reference name the same class."""
    top5_agreement: Fraction | None = None
    """Smallest mean overlap of the five classes that package and reference rank highest."""
    top1_drop: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Largest loss of top-1 accuracy against the reference (0.005 is half a percentage point). Needs labels."""
    top1: Fraction | None = None
    """Smallest top-1 accuracy. Needs labels."""
    repeatable: bool | None = None
    """The same input must give the same bits twice; reads of uninitialised memory show here."""
    metrics: dict[Name, Metric] | None = None
    """Figures of your own, by name, with their bounds; one without bounds is reported only."""
    latency_ms: Annotated[dict[PercentileName, Size], BeforeValidator(_median)] | None = None
    """Largest latency: of the median, or by percentile (``{p50: 5, p99: 9}``)."""
    speedup: Size | None = None
    """How many times as fast as the baseline the package must be, at least: the source model in its own framework on the same
    machine."""
    package_mb: Size | None = None
    """Largest size of package.tar, in MB of 10^6 bytes."""
    peak_memory_mb: Size | None = None
    """Largest peak of the resident memory of the process that runs the package, in MB of 10^6 bytes."""
    load_ms: Size | None = None
    """Longest time from opening the package to being ready to run."""

    @field_validator("metrics")
    @classmethod
    def _named_otherwise(cls, value: dict[str, Metric] | None) -> dict[str, Metric] | None:
        for name in value or ():
            if name in cls.model_fields:
                raise ValueError(f"{name!r} is one of tvmake's own goals; give the metric another name")
        return value

    @property
    def numeric(self) -> "Goals":
        """Those that the outputs are judged by."""
        return self.model_copy(update=dict.fromkeys(PERFORMANCE))

    @property
    def performance(self) -> "Goals":
        """Those of latency, memory and size."""
        return Goals(**{name: getattr(self, name) for name in PERFORMANCE})

    def updated(self, other: "Goals") -> "Goals":
        """These goals with those that ``other`` sets, null included, in place of their own."""
        changes = {name: getattr(other, name) for name in Goals.model_fields if name in other.model_fields_set}
        return self.model_copy(update=changes)


PERFORMANCE = ("latency_ms", "speedup", "package_mb", "peak_memory_mb", "load_ms")


class PrecisionGoals(Goals):
    """Goals for every precision, and exceptions for some."""

    per_precision: dict[str, Goals] = Field(default_factory=dict)
    """Goals for ``float32``, ``tf32``, ``float16``, ``float16_acc32``, ``int8``, ``int8_weights``, ``int4_weights`` or ``auto`` alone; they win over the ones beside. A precision of
    your own goes by its ``base``."""

    @field_validator("per_precision")
    @classmethod
    def _known(cls, value: dict[str, Goals]) -> dict[str, Goals]:
        for name in value:
            if name not in DEFAULT_GOALS:
                raise ValueError(f"no such precision {name!r}; there are {', '.join(DEFAULT_GOALS)}")
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
"""Goals per precision where the config says nothing; the module's text gives the reasons."""

AS_THE_SOURCE_ROUNDS = ("float32", "tf32", "float16_acc32")
"""Precisions in which such a source is held to the default goals of auto."""


class ValidationOptions(Strict):
    """How much to compare when a model has no dataset, and the goals of every model."""

    samples: Repetitions = 16
    """Random inputs to compare for a model without a dataset. From two on, the comparison also tells whether the
    outputs react to the inputs at all."""
    seed: int = Field(default=0, ge=0)
    """Seed of the random inputs."""
    dims: dict[str, Positive] = Field(default_factory=dict)
    """Extents, by name, for dynamic dimensions that a package keeps; 1, or the smallest that they take, for the others. A model's own ``dims`` win."""
    goals: PrecisionGoals = PrecisionGoals()
    """Goals of every model; a model's own ``goals`` win."""


def default_goals(precision: str, is_quantized: bool = False) -> Goals:
    """Goals where the config says nothing.

    Args:
        is_quantized: whether the source rounds activations itself, to integers or to bfloat16.
    """
    return DEFAULT_GOALS["auto" if is_quantized and precision in AS_THE_SOURCE_ROUNDS else precision]


def goals_for(precision: str, *levels: PrecisionGoals | None, is_quantized: bool = False) -> Goals:
    """The goals of one model at one precision: the defaults, then each level in order, later ones winning.

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
