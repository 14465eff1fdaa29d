"""Integer tensors that represent real values: value = (integer − zero point) · scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, is_call

from tvm import relax  # isort: skip

SMALL = ("int8", "uint8")
"""Dtypes of the operands of integer products."""


@dataclass(frozen=True)
class Affine:
    """A parsed call of ``relax.quantize`` or ``relax.dequantize``."""

    integers: Any
    """The integer tensor."""
    scale: Any
    """A scalar, or a vector along ``axis``: a NumPy array, or an expression if it is computed."""
    zero: Any
    """The integer that represents 0, in the same form."""
    axis: int

    @property
    def dtype(self) -> str:
        return str(self.integers.ty.dtype)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return int(self.integers.ty.ndim)

    @property
    def is_per_tensor(self) -> bool:
        """Whether scale and zero point are constant scalars."""
        return all(isinstance(value, np.ndarray) and value.size == 1 for value in (self.scale, self.zero))

    @property
    def is_single(self) -> bool:
        """Whether scale and zero point are scalars, constant or computed."""
        return all(
            value.size == 1 if isinstance(value, np.ndarray) else int(value.ty.ndim) == 0
            for value in (self.scale, self.zero)
        )

    @property
    def is_known(self) -> bool:
        """Whether scale and zero point are constants."""
        return isinstance(self.scale, np.ndarray) and isinstance(self.zero, np.ndarray)

    def same_grid(self, other: "Affine") -> bool:
        """Whether both are per tensor and equal integers represent equal values."""
        return (
            self.dtype == other.dtype
            and self.is_per_tensor
            and other.is_per_tensor
            and self.scale.item() == other.scale.item()
            and self.zero.item() == other.zero.item()
        )


def affine(call: Any) -> Affine | None:
    """Parse a ``quantize`` or ``dequantize`` of float32; None for other expressions."""
    if not is_call(call, "dequantize", "quantize"):
        return None
    value, scale, zero = call.args
    floats = call.ty if is_call(call, "dequantize") else value.ty
    integers = value if is_call(call, "dequantize") else call
    if str(floats.dtype) != "float32" or not str(integers.ty.dtype).startswith(("int", "uint")):
        return None
    rank = int(value.ty.ndim)
    return Affine(integers, _parameter(scale), _parameter(zero), int(call.attrs.axis) % rank if rank else 0)


def _parameter(value: Any) -> Any:
    known = constant(value)
    if known is None:
        return value
    return known.reshape(()) if known.size == 1 else known


def along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """Reshape a vector to broadcast along ``axis`` of a tensor; a single value becomes a scalar."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if index == axis else 1 for index in range(rank)])


def dequantize(integers: Any, scale: np.ndarray, zero: np.ndarray, axis: int) -> Any:
    """Create a call of ``relax.dequantize`` to float32."""
    dtype = str(integers.ty.dtype)
    zeros = np.asarray(zero, dtype)
    if scale.ndim and not zeros.ndim:
        zeros = np.full(scale.shape, zeros, dtype)
    return relax.op.dequantize(
        integers, relax.const(np.asarray(scale, "float32")), relax.const(zeros, dtype), axis=axis, out_dtype="float32"
    )
