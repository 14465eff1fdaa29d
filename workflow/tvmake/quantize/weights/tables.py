"""Store lookup tables, such as embeddings, in int8 with a scale for each row, and dequantise the rows that are looked up.

In a language model they may be most of the bytes. They are symmetric, like weights, and need no calibration.
"""

from typing import Any

import numpy as np

from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.ir.expressions import constant, is_call
from tvmake.quantize.weights.channels import LARGEST_WEIGHT, step
from tvmake.quantize.weights.narrow import ELEMENTS_AT_ONCE, Integers

from tvm import relax  # isort: skip

LOOKUP = "take"

LEAST = 4096
"""Number of elements of the smallest table that is stored in integers."""


def is_table(call: Any) -> bool:
    """Whether a call looks up rows of a float table [rows, columns] that is large enough for integers."""
    if not is_call(call, LOOKUP) or call.attrs.axis is None or int(call.attrs.axis) != 0:
        return False
    if constant(call.args[1]) is not None or str(call.ty.dtype) not in ("float32", "float16"):
        return False
    values = constant(call.args[0])
    return values is not None and values.ndim == 2 and values.size >= LEAST and bool(np.isfinite(values).all())


class Tables:
    """Lookups in integer tables; several calls share a table."""

    def __init__(self, builder: Any):
        self._builder = builder
        self._tables: dict[Any, list[Any]] = {}
        """Integers [rows, columns], scales [rows, groups], and optional zero points."""

    @property
    def count(self) -> int:
        """Number of tables in integers."""
        return len(self._tables)

    def look_up(self, call: Any, indices: Any, known: Integers | None = None) -> Any:
        """Look up rows for a call and dequantise them to its dtype.

        Args:
            known: the source's integers of the table, [columns, rows]; None to round the table.
        """
        if call.args[0] not in self._tables:
            self._tables[call.args[0]] = _constants(round_table(constant(call.args[0])) if known is None else known)
        emit, op = self._builder.emit, relax.op
        parts = self._tables[call.args[0]]
        integers, *parameters = (emit(relax.Call(call.op, [part, indices], call.attrs, call.ty_args)) for part in parts)
        shape = list(call.ty.shape)
        groups = int(parts[1].ty.shape[1])
        real = emit(op.astype(integers, "float32"))
        if groups > 1:
            real = emit(op.reshape(real, [*shape[:-1], groups, int(shape[-1]) // groups]))
            parameters = [emit(op.expand_dims(parameter, -1)) for parameter in parameters]
        for zeros in parameters[1:]:
            real = emit(op.subtract(real, emit(op.astype(zeros, "float32"))))
        real = op.multiply(real, parameters[0])
        if groups > 1:
            real = op.reshape(emit(real), shape)
        return real if str(call.ty.dtype) == "float32" else op.astype(emit(real), str(call.ty.dtype))


def _constants(table: Integers) -> list[Any]:
    parts = (table.values, table.scales, table.zeros)
    return [relax.const(spill_tensor(part.T)) for part in parts if part is not None]


def round_table(table: Any) -> Integers:
    """Round a table to int8, with a scale for each row."""
    values = np.asarray(table, np.float32)
    rows, columns = values.shape
    integers, scales = np.empty((rows, columns), np.int8), np.empty(rows, np.float32)
    count = max(1, ELEMENTS_AT_ONCE // max(1, columns))
    for start in range(0, rows, count):
        part = values[start : start + count]
        largest = np.abs(part).max(axis=1).astype(np.float64)
        scales[start : start + count] = [step(value / LARGEST_WEIGHT) for value in largest]
        quotients = part / scales[start : start + count, None]
        integers[start : start + count] = np.clip(np.rint(quotients), -LARGEST_WEIGHT, LARGEST_WEIGHT)
    return Integers(integers.T, scales[None], columns)
