"""Tables whose rows are looked up, as embeddings are, in int8 with a scale for each row: what is looked up is made real again.

In a language model they may be most of the bytes. Symmetric, like weights; no calibration is needed.
"""

from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, is_call
from tvmake.quantize.weights import LARGEST_WEIGHT, step

from tvm import relax  # isort: skip

LOOKUP = "take"

LEAST = 4096
"""Numbers of the smallest table that is worth it."""


def is_table(call: Any) -> bool:
    """Whether a call looks up rows of a table [rows, columns] of numbers, large enough to be held in integers."""
    if not is_call(call, LOOKUP) or call.attrs.axis is None or int(call.attrs.axis) != 0:
        return False
    if constant(call.args[1]) is not None or str(call.ty.dtype) not in ("float32", "float16"):
        return False
    values = constant(call.args[0])
    return values is not None and values.ndim == 2 and values.size >= LEAST and bool(np.isfinite(values).all())


class Tables:
    """Lookups in integers; a table that several calls read is held once."""

    def __init__(self, builder: Any):
        self._builder = builder
        self._held: dict[Any, tuple[Any, Any]] = {}

    @property
    def count(self) -> int:
        """How many are held in integers."""
        return len(self._held)

    def looked_up(self, call: Any, places: Any) -> Any:
        """The rows that a call looks up, in its element type."""
        if call.args[0] not in self._held:
            integers, scales = rounded(constant(call.args[0]))
            self._held[call.args[0]] = relax.const(integers, "int8"), relax.const(scales, "float32")
        emit, op = self._builder.emit, relax.op
        integers, scales = (
            emit(relax.Call(call.op, [held, places], call.attrs, call.ty_args)) for held in self._held[call.args[0]]
        )
        real = op.multiply(emit(op.astype(integers, "float32")), emit(op.expand_dims(scales, -1)))
        return real if str(call.ty.dtype) == "float32" else op.astype(emit(real), str(call.ty.dtype))


def rounded(table: Any) -> tuple[np.ndarray, np.ndarray]:
    """A table's integers, int8, and the scale of each row, float32."""
    values = np.asarray(table, np.float32)
    largest = np.abs(values).max(axis=1).astype(np.float64)
    scales = np.asarray([step(value / LARGEST_WEIGHT) for value in largest], np.float32)
    return np.clip(np.rint(values / scales[:, None]), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8), scales
