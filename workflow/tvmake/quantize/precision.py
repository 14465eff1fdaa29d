"""Precisions: how values are stored and multiplied."""

from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from tvmake.options import Positive, Strict

FloatPrecision = Literal["float32", "float16", "float16_acc32"]

BasePrecision = Literal["float32", "tf32", "float16", "float16_acc32", "int8", "int8_weights", "int4_weights", "auto"]

LayerPrecision = Literal["float32", "float16_acc32", "float16", "int8"]
"""What a single layer can be computed in; the most accurate first."""

USUAL_CHOICE: tuple[LayerPrecision, ...] = ("float32", "float16", "int8")
"""What ``auto`` chooses among by default, as far as the target can do it."""

WEIGHTS_ONLY = ("int8_weights", "int4_weights")
"""Bases that compute in float, with weights of 8 or 4 bits."""

DEFAULT_GROUP = 64
"""Of ``int4_weights``."""

OpName = Annotated[str, StringConstraints(pattern=r"^(relax\.)?[a-z_0-9]+(\.[a-z_0-9]+)*$")]


class LayerAssignment(Strict):
    """Which precision each layer of a network has."""

    uniform: LayerPrecision | None = None
    """The one that the network has as a whole, as with ``base``; None where layers have theirs."""
    layers: list[LayerPrecision] = Field(default_factory=list)
    """One for each layer, in the order in which they are computed; empty where ``uniform`` says it."""


class CalibrationOptions(Strict):
    """How the ranges of activations are found for ``int8``."""

    method: Literal["minmax", "percentile", "entropy"] = "minmax"
    """``minmax``: from the smallest to the largest value seen; ``percentile``: without the outermost ones; ``entropy``: cut
    where the 8-bit values keep most of the distribution (Kullback-Leibler divergence)."""
    percentile: Annotated[float, Field(gt=50, le=100)] = 99.99
    """For ``percentile``: the share of values, in percent, that has to be within the range."""
    samples: Positive = 128
    """Use at most this many calls of the model."""
    bias_correction: bool = True
    """Take off each output channel what 8 bits shift it by, on average of the dataset; without a dataset nothing is taken off."""

    @model_validator(mode="after")
    def _uses_its_percentile(self) -> "CalibrationOptions":
        is_given = self.percentile != type(self).model_fields["percentile"].default
        if is_given and self.method != "percentile":
            raise ValueError(
                f"percentile is for method percentile, and this is {self.method}; write method: percentile"
            )
        return self


class PrecisionConfig(Strict):
    """A precision, with per-operator exceptions.

    The three lists are the categories of TVM's ToMixedPrecision (relax/transform/to_mixed_precision.cc). Operators are
    named as in Relax: ``nn.conv2d``, ``nn.softmax``, ``add``.
    """

    base: BasePrecision = "float32"
    """``auto`` (each layer in one of ``among``, chosen by measuring for each target: the fastest that meets the model's goals); ``float32``;
    ``tf32`` (float32, which NVIDIA's tensor cores multiply in TF32, that is in 11 bits of 24, and sum up in single); ``float16`` (multiplied and accumulated in half); ``float16_acc32`` (multiplied in half, accumulated in single);
    ``int8`` (convolutions and products of matrices in 8-bit integers, summed in 32 bits, the rest in single);
    ``int8_weights`` and ``int4_weights`` (the weights of products of matrices in 8 or 4 bits, all computed as ``activations`` says)."""
    always: list[OpName] = Field(default_factory=list)
    """Operators always computed in float16 (those TVM can: convolutions and matmul by default)."""
    never: list[OpName] = Field(default_factory=list)
    """Operators kept in float32 (softmax and losses by default)."""
    follow: list[OpName] = Field(default_factory=list)
    """Operators that take the type of their inputs (element-wise ones by default)."""
    among: list[LayerPrecision] | None = None
    """For ``auto``: the precisions that layers may have, two at least; by default float32, float16 and int8, as far as the target
    can do them. Their order does not matter. Layers that ``never`` names stay in the most accurate one."""
    calibration: CalibrationOptions = CalibrationOptions()
    """For ``int8``, and for ``auto``: how the ranges of activations are found."""
    group: Literal[32, 64, 128] | None = None
    """For ``int8_weights`` and ``int4_weights``: how many consecutive weights of an output channel share a scale. By default
    64 for ``int4_weights``, and all of a channel for ``int8_weights``."""
    activations: FloatPrecision = "float32"
    """For ``int8_weights`` and ``int4_weights``: how all that is no weight is held and computed."""

    @property
    def arithmetic(self) -> BasePrecision:
        """What it computes in: the base, but for those of weights."""
        return self.activations if self.base in WEIGHTS_ONLY else self.base

    @property
    def is_chosen(self) -> bool:
        """Whether the precision of each layer is chosen by measuring."""
        return self.base == "auto"

    @property
    def is_calibrated(self) -> bool:
        """Whether it needs the ranges of activations."""
        return self.base == "int8" or (self.is_chosen and "int8" in (self.among or USUAL_CHOICE))

    @property
    def weight_group(self) -> int | None:
        """How many weights share a scale; None for all of a channel."""
        return DEFAULT_GROUP if self.base == "int4_weights" and self.group is None else self.group

    @model_validator(mode="after")
    def _lists_differ(self) -> "PrecisionConfig":
        lists = ({name.removeprefix("relax.") for name in names} for names in (self.always, self.never, self.follow))
        named = [name for names in lists for name in names]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} stands in two of always, never and follow; keep one")
        return self

    @model_validator(mode="after")
    def _groups_weights_only(self) -> "PrecisionConfig":
        if self.base in WEIGHTS_ONLY:
            if self.always or self.follow:
                raise ValueError(f"base {self.base} has no always and follow: name what keeps its weights under never")
        elif self.group is not None or self.activations != "float32":
            key = "group" if self.group is not None else "activations"
            raise ValueError(f"{key} is for base int8_weights or int4_weights")
        return self

    @model_validator(mode="after")
    def _calibrates_integers_only(self) -> "PrecisionConfig":
        if not self.is_calibrated and self.calibration != CalibrationOptions():
            raise ValueError("calibration is for base int8, or auto among int8 and others")
        if self.base in ("float32", "tf32") and (self.always or self.never or self.follow):
            raise ValueError(f"base {self.base} has no always, never and follow: it changes no operator")
        if self.base == "int8" and (self.always or self.follow):
            raise ValueError("base int8 has no always and follow: name what stays in float32 under never")
        return self

    @field_validator("among")
    @classmethod
    def _differ(cls, value: list[LayerPrecision] | None) -> list[LayerPrecision] | None:
        if value is None:
            return None
        known = [precision for precision in get_args(LayerPrecision) if precision in value]
        if len(known) < len(value):
            raise ValueError("names a precision twice; name each once")
        if len(known) < 2:
            raise ValueError("leaves nothing to choose; name two or more, or make the one that is wanted the base")
        return known

    @model_validator(mode="after")
    def _chooses_if_auto(self) -> "PrecisionConfig":
        if self.among is not None and not self.is_chosen:
            raise ValueError(f"among is for base auto; base {self.base} leaves nothing to choose")
        if self.is_chosen and (self.always or self.follow):
            key = "always" if self.always else "follow"
            raise ValueError(
                f"base auto has no {key}: it measures which layers gain; under never are those to be left alone"
            )
        return self


def precision_of(assignment: LayerAssignment, chosen_by: PrecisionConfig) -> PrecisionConfig:
    """The precision that a network with an assignment has: that of the whole network, where there is one, else the ``auto`` that the
    assignment was chosen for."""
    if assignment.uniform is None:
        return chosen_by
    never = [] if assignment.uniform == "float32" else chosen_by.never
    return PrecisionConfig(base=assignment.uniform, never=never)
