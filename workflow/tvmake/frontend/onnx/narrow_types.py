"""How a compiled model stores element types of fewer than eight bits, and floats of eight.

An integer of two or four bits is stored in one byte, as int8 or uint8. A small float is stored as its bits in uint8: the bytes are those
of a tensor of the type itself.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper


@dataclass(frozen=True)
class SmallFloat:
    """A float format of at most eight bits; codes are of the magnitude, without the sign.

    Sources: FP8 Formats for Deep Learning (Micikevicius et al., 2022); 8-bit Numerical Formats for Deep Neural Networks (Noune et
    al., 2022) for the FNUZ ones; OCP Microscaling Formats 1.0 for E8M0, E2M1, E2M3 and E3M2.
    """

    mantissa: int
    bias: int
    sign: int
    """The sign bit; 0 for an unsigned format."""
    largest: int
    """Code of the largest finite magnitude."""
    beyond: int
    """Code of larger magnitudes without saturation: infinity or NaN."""
    nan: int
    """Code of NaN; in a format without NaN that of -0, as in ml_dtypes."""
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
"""The smallest and largest value of every type."""

NARROW = frozenset(SMALL_FLOATS) | frozenset(SMALL_INTEGERS)


def storage_type(data_type: int) -> int:
    """The element type in which a compiled model stores a type; the type itself if it is not narrow."""
    if data_type not in NARROW:
        return data_type
    return TensorProto.INT8 if data_type in (TensorProto.INT4, TensorProto.INT2) else TensorProto.UINT8


_BY_NAME = {helper.tensor_dtype_to_np_dtype(kind).name: kind for kind in NARROW}


def to_storage_dtype(values: np.ndarray) -> np.ndarray:
    """Values of a narrow type in the stored form; other values unchanged."""
    data_type = _BY_NAME.get(values.dtype.name, 0)
    if data_type in SMALL_FLOATS:
        return values.view(np.uint8)
    return (
        values.astype(helper.tensor_dtype_to_np_dtype(storage_type(data_type)))
        if data_type in SMALL_INTEGERS
        else values
    )


def from_storage_dtype(values: np.ndarray, data_type: int) -> np.ndarray:
    """Invert :func:`to_storage_dtype` for a tensor of ``data_type``."""
    if data_type not in NARROW:
        return values
    kind = helper.tensor_dtype_to_np_dtype(data_type)
    return values.view(kind) if data_type in SMALL_FLOATS else values.astype(kind)


def decoding_table(data_type: int) -> np.ndarray:
    """The float32 values of all codes of a small float, including the sign."""
    float_type = SMALL_FLOATS[data_type]
    codes = 2 * float_type.sign or float_type.beyond + 1
    return np.arange(codes, dtype=np.uint8).view(helper.tensor_dtype_to_np_dtype(data_type)).astype(np.float32)


def storage_range(data_type: int) -> tuple[float, float] | None:
    """Inclusive bounds of the stored values of a narrow type: all integers, or the codes of finite non-negative floats."""
    if data_type in SMALL_INTEGERS:
        low, high = SMALL_INTEGERS[data_type]
        return float(low), float(high)
    return (0.0, float(SMALL_FLOATS[data_type].largest)) if data_type in SMALL_FLOATS else None
