"""Element types of fewer than eight bits, and floats of eight: how a compiled model holds them.

Integers of two and four bits are held one in a byte, as int8 or uint8. Small floats are held as their bits, in uint8: the same bytes that
a tensor of the type itself has.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper


@dataclass(frozen=True)
class SmallFloat:
    """A float format of at most eight bits; codes are those of the magnitude, without the sign.

    Sources: FP8 Formats for Deep Learning (Micikevicius et al., 2022); 8-bit Numerical Formats for Deep Neural Networks (Noune et
    al., 2022) for the FNUZ ones; OCP Microscaling Formats 1.0 for E8M0, E2M1, E2M3 and E3M2.
    """

    mantissa: int
    bias: int
    sign: int
    """The bit of the sign; 0 for a format without."""
    largest: int
    """Code of the largest finite magnitude."""
    beyond: int
    """Code of what is larger, where it is not saturated: infinity or NaN."""
    nan: int
    """What NaN becomes; where there is none, -0, as ml_dtypes has it."""
    has_negative_zero: bool = True
    has_subnormals: bool = True


SMALL_FLOATS = {
    TensorProto.FLOAT8E4M3FN: SmallFloat(3, 7, 0x80, 0x7E, 0x7F, 0x7F),
    TensorProto.FLOAT8E4M3FNUZ: SmallFloat(3, 8, 0x80, 0x7F, 0x80, 0x80, has_negative_zero=False),
    TensorProto.FLOAT8E5M2: SmallFloat(2, 15, 0x80, 0x7B, 0x7C, 0x7E),
    TensorProto.FLOAT8E5M2FNUZ: SmallFloat(2, 16, 0x80, 0x7F, 0x80, 0x80, has_negative_zero=False),
    TensorProto.FLOAT8E8M0: SmallFloat(0, 127, 0, 0xFE, 0xFF, 0xFF, has_subnormals=False),
    TensorProto.FLOAT4E2M1: SmallFloat(1, 1, 0x08, 0x07, 0x07, 0x08),
}

SMALL_INTEGERS = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT2: (-2, 1),
    TensorProto.UINT2: (0, 3),
}
"""With their smallest and largest values."""

NARROW = frozenset(SMALL_FLOATS) | frozenset(SMALL_INTEGERS)


def carrier(data_type: int) -> int:
    """The element type that a compiled model holds a type in; the type itself where it is not narrow."""
    if data_type not in NARROW:
        return data_type
    return TensorProto.INT8 if data_type in (TensorProto.INT4, TensorProto.INT2) else TensorProto.UINT8


_BY_NAME = {helper.tensor_dtype_to_np_dtype(kind).name: kind for kind in NARROW}


def to_storage_dtype(values: np.ndarray) -> np.ndarray:
    """Values of a narrow type as a compiled model holds them; others as they are."""
    data_type = _BY_NAME.get(values.dtype.name, 0)
    if data_type in SMALL_FLOATS:
        return values.view(np.uint8)
    return values.astype(helper.tensor_dtype_to_np_dtype(carrier(data_type))) if data_type in SMALL_INTEGERS else values


def restored(values: np.ndarray, data_type: int) -> np.ndarray:
    """The reverse of :func:`to_storage_dtype`, for a tensor of ``data_type``."""
    if data_type not in NARROW:
        return values
    kind = helper.tensor_dtype_to_np_dtype(data_type)
    return values.view(kind) if data_type in SMALL_FLOATS else values.astype(kind)


def decoded(data_type: int) -> np.ndarray:
    """The float32 values of all codes of a small float, the sign's included."""
    float_type = SMALL_FLOATS[data_type]
    codes = 2 * float_type.sign or float_type.beyond + 1
    return np.arange(codes, dtype=np.uint8).view(helper.tensor_dtype_to_np_dtype(data_type)).astype(np.float32)


def sensible_range(data_type: int) -> tuple[float, float] | None:
    """Inclusive bounds of what a tensor of the type is held as: all integers, the finite floats that are not negative."""
    if data_type in SMALL_INTEGERS:
        low, high = SMALL_INTEGERS[data_type]
        return float(low), float(high)
    return (0.0, float(SMALL_FLOATS[data_type].largest)) if data_type in SMALL_FLOATS else None
