"""Precisions: the dtypes in which values are stored and multiplied."""

from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from tvmake.options import Positive, Strict

FloatPrecision = Literal["float32", "float16", "float16_acc32"]

BasePrecision = Literal["float32", "tf32", "float16", "float16_acc32", "int8", "int8_weights", "int4_weights", "auto"]

LayerPrecision = Literal["float32", "float16_acc32", "float16", "int8"]
"""Precisions of a single layer, the most accurate first."""

USUAL_CHOICE: tuple[LayerPrecision, ...] = ("float32", "float16", "int8")
"""Default candidates of ``auto``; those that the target does not support are left out."""

WEIGHTS_ONLY = ("int8_weights", "int4_weights")
"""Bases that compute in float, with weights of 8 or 4 bits."""

DEFAULT_GROUP = 64
"""Default group of ``int4_weights``."""

OpName = Annotated[str, StringConstraints(pattern=r"^(relax\.)?[a-z_0-9]+(\.[a-z_0-9]+)*$")]


class LayerAssignment(Strict):
    """The precision of each layer of a network."""

    uniform: LayerPrecision | None = None
    """The precision of the whole network, as with ``base``; None if layers differ."""
    layers: list[LayerPrecision] = Field(default_factory=list)
    """The precision of each layer, in the order of computation; empty if ``uniform`` is set."""


class CalibrationOptions(Strict):
    """Calibration of activation ranges for ``int8``."""

    method: Literal["minmax", "percentile", "entropy"] = "minmax"
    """``minmax``: from the smallest to the largest observed value; ``percentile``: without outliers; ``entropy``: the range
    whose 8-bit values preserve most of the distribution (Kullback-Leibler divergence)."""
    percentile: Annotated[float, Field(gt=50, le=100)] = 99.99
    """For ``percentile``: the percentage of values within the range."""
    samples: Positive = 128
    """Use at most this many calls of the model."""
    bias_correction: bool = True
    """Subtract from each output channel its mean quantisation error over the dataset; no effect without a dataset."""

    @model_validator(mode="after")
    def _uses_its_percentile(self) -> "CalibrationOptions":
        is_set = self.percentile != type(self).model_fields["percentile"].default
        if is_set and self.method != "percentile":
            raise ValueError(
                f"percentile is for method percentile, and this is {self.method}; write method: percentile"
            )
        return self


class PrecisionConfig(Strict):
    """A precision, with per-operator exceptions.

    The three lists are the categories of TVM's ToMixedPrecision (relax/transform/to_mixed_precision.cc). Operators have
    their names in Relax: ``nn.conv2d``, ``nn.softmax``, ``add``.
    """

    base: BasePrecision = "float32"
    """``auto`` (each layer in one of ``among``, chosen by measuring for each target: the fastest that meets the model's
    goals); ``float32``; ``tf32`` (float32, but NVIDIA's tensor cores multiply in TF32, with 11 of 24 bits, and accumulate in
    float32); ``float16`` (multiplied and accumulated in float16); ``float16_acc32`` (multiplied in float16, accumulated in
    float32); ``int8`` (convolutions and matmuls in 8-bit integers, accumulated in 32 bits, the rest in float32);
    ``int8_weights`` and ``int4_weights`` (weights of matmuls in 8 or 4 bits, computed in the dtype of ``activations``)."""
    always: list[OpName] = Field(default_factory=list)
    """Operators that are always computed in float16, if TVM can (convolutions and matmul by default)."""
    never: list[OpName] = Field(default_factory=list)
    """Operators that stay in float32 (softmax and losses by default)."""
    follow: list[OpName] = Field(default_factory=list)
    """Operators that take the dtype of their inputs (element-wise ones by default)."""
    among: list[LayerPrecision] | None = None
    """For ``auto``: the candidate precisions of layers, at least two, in any order. By default those of float32, float16 and
    int8 that the target supports. Layers in ``never`` stay in the most accurate one."""
    calibration: CalibrationOptions = CalibrationOptions()
    """For ``int8`` and ``auto``: calibration of activation ranges."""
    group: Literal[32, 64, 128] | None = None
    """For ``int8_weights`` and ``int4_weights``: how many consecutive weights of an output channel share a scale. By default
    64 for ``int4_weights``, and all of a channel for ``int8_weights``."""
    activations: FloatPrecision = "float32"
    """For ``int8_weights`` and ``int4_weights``: the precision of everything except weights."""

    @property
    def arithmetic(self) -> BasePrecision:
        """The precision of the arithmetic: ``activations`` for weight-only bases, else the base."""
        return self.activations if self.base in WEIGHTS_ONLY else self.base

    @property
    def is_chosen(self) -> bool:
        """Whether the precision of each layer is chosen by measuring."""
        return self.base == "auto"

    @property
    def is_calibrated(self) -> bool:
        """Whether the precision needs activation ranges."""
        return self.base == "int8" or (self.is_chosen and "int8" in (self.among or USUAL_CHOICE))

    @property
    def weight_group(self) -> int | None:
        """Number of weights that share a scale; None for all of a channel."""
        return DEFAULT_GROUP if self.base == "int4_weights" and self.group is None else self.group

    @model_validator(mode="after")
    def _lists_differ(self) -> "PrecisionConfig":
        lists = ({name.removeprefix("relax.") for name in names} for names in (self.always, self.never, self.follow))
        named = [name for names in lists for name in names]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} is in two of always, never and follow; keep one")
        return self

    @model_validator(mode="after")
    def _groups_weights_only(self) -> "PrecisionConfig":
        if self.base in WEIGHTS_ONLY:
            if self.always or self.follow:
                raise ValueError(
                    f"base {self.base} has no always and follow: name operators that keep their weights under never"
                )
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
            raise ValueError("base int8 has no always and follow: name operators that stay in float32 under never")
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
            raise ValueError("leaves nothing to choose; name two or more, or use the only one as the base")
        return known

    @model_validator(mode="after")
    def _chooses_if_auto(self) -> "PrecisionConfig":
        if self.among is not None and not self.is_chosen:
            raise ValueError(f"among is for base auto; base {self.base} leaves nothing to choose")
        if self.is_chosen and (self.always or self.follow):
            key = "always" if self.always else "follow"
            raise ValueError(
                f"base auto has no {key}: it measures which layers gain; name layers to leave unchanged under never"
            )
        return self


def precision_of(assignment: LayerAssignment, chosen_by: PrecisionConfig) -> PrecisionConfig:
    """Return the precision of a network with an assignment: the uniform one, or the ``auto`` that chose the layers."""
    if assignment.uniform is None:
        return chosen_by
    never = [] if assignment.uniform == "float32" else chosen_by.never
    return PrecisionConfig(base=assignment.uniform, never=never)
