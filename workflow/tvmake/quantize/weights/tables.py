"""Tables whose rows are looked up, as embeddings are, in int8 with a scale for each row: what is looked up is made real again.

In a language model they may be most of the bytes. Symmetric, like weights; no calibration is needed.
"""

from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, is_call
from tvmake.quantize.weights.channels import LARGEST_WEIGHT, step
from tvmake.quantize.weights.narrow import Integers

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
        self._held: dict[Any, list[Any]] = {}
        """Integers [rows, columns], scales [rows, groups], and zero points where there are any."""

    @property
    def count(self) -> int:
        """How many are held in integers."""
        return len(self._held)

    def looked_up(self, call: Any, places: Any, known: Integers | None = None) -> Any:
        """The rows that a call looks up, in its element type.

        Args:
            known: the table's integers, [columns, rows], where the source has such; rounded ones otherwise.
        """
        if call.args[0] not in self._held:
            self._held[call.args[0]] = _constants(rounded(constant(call.args[0])) if known is None else known)
        emit, op = self._builder.emit, relax.op
        held = self._held[call.args[0]]
        integers, *parameters = (emit(relax.Call(call.op, [one, places], call.attrs, call.ty_args)) for one in held)
        shape = list(call.ty.shape)
        groups = int(held[1].ty.shape[1])
        real = emit(op.astype(integers, "float32"))
        if groups > 1:
            real = emit(op.reshape(real, [*shape[:-1], groups, int(shape[-1]) // groups]))
            parameters = [emit(op.expand_dims(one, -1)) for one in parameters]
        for zeros in parameters[1:]:
            real = emit(op.subtract(real, emit(op.astype(zeros, "float32"))))
        real = op.multiply(real, parameters[0])
        if groups > 1:
            real = op.reshape(emit(real), shape)
        return real if str(call.ty.dtype) == "float32" else op.astype(emit(real), str(call.ty.dtype))


def _constants(held: Integers) -> list[Any]:
    parts = (held.values, held.scales, held.zeros)
    return [relax.const(np.ascontiguousarray(part.T)) for part in parts if part is not None]


def rounded(table: Any) -> Integers:
    """A table in int8, with a scale for each row."""
    values = np.asarray(table, np.float32)
    largest = np.abs(values).max(axis=1).astype(np.float64)
    scales = np.asarray([step(value / LARGEST_WEIGHT) for value in largest], np.float32)
    integers = np.clip(np.rint(values / scales[:, None]), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
    return Integers(integers.T, scales[None], values.shape[1])
