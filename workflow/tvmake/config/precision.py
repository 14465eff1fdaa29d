"""``precisions:`` — how numbers are held and multiplied."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tvmake.config.base import Strict

BasePrecision = Literal["float32", "float16", "float16_acc32"]

OpName = Annotated[str, StringConstraints(pattern=r"^(relax\.)?[a-z_0-9]+(\.[a-z_0-9]+)*$")]


class PrecisionConfig(Strict):
    """A precision, with per-operator exceptions.

    The three lists are the categories of TVM's ToMixedPrecision (relax/transform/to_mixed_precision.cc). Operators are
    named as in Relax: ``nn.conv2d``, ``nn.softmax``, ``add``.
    """

    base: BasePrecision = "float32"
    """``float32``; ``float16`` (multiplied and accumulated in half); ``float16_acc32`` (multiplied in half, accumulated in single)."""
    always: list[OpName] = Field(default_factory=list)
    """Operators always computed in float16 (those TVM can: convolutions and matmul by default)."""
    never: list[OpName] = Field(default_factory=list)
    """Operators kept in float32 (softmax and losses by default)."""
    follow: list[OpName] = Field(default_factory=list)
    """Operators that take the type of their inputs (element-wise ones by default)."""
