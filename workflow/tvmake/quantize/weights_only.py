"""Weights of products in 4 or 8 bits, everything else in float: each kernel makes numbers of them as it multiplies.

Integers are symmetric about 0, with a scale in float32 for each output channel or for each group of consecutive inputs of it (Frantar
et al., "GPTQ", ICLR 2023, section 5, calls the latter grouping). Two integers of 4 bits share a byte, each plus 8.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvmake.config.precision import PrecisionConfig
from tvmake.ir.expressions import bindings, constant, is_call, operator_name
from tvmake.ir.rewriting import rewritten
from tvmake.quantize.coverage import kept_in_float
from tvmake.quantize.products import CONVOLUTIONS
from tvmake.quantize.sites import OTHER_PRODUCTS
from tvmake.quantize.tables import LOOKUP, Tables, is_table

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

BLOCK, HALF_BLOCK = 32, 16
"""Inputs whose integers of 4 bits share 16 bytes: the first 16 have the lower halves, so that neighbours are read as vectors."""

MIDDLE = 8
"""What is added to an integer of 4 bits, so that none is negative."""

SHARES = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Of a group's largest number, which the largest integer of 4 bits is tried to stand for: the rest comes closer where it is less."""

FUSES_WHAT_FOLLOWS = 4
"""``OpPatternKind`` kOutEWiseFusable (include/tvm/relax/op_attr_types.h), which a product is."""


@dataclass
class HeldWeights:
    """What became of a network's weights."""

    bits: int
    products: int = 0
    """Products of matrices whose weights are integers."""
    tables: int = 0
    """Tables whose rows are integers of 8 bits."""
    kept: list[tuple[str, str, str]] = field(default_factory=list)
    """Operator, name and reason of each product whose weights stay in float."""

    def coverage(self) -> str:
        """How many weights are integers, and which are not and why, in one line."""
        total = self.products + len(self.kept)
        if not total and not self.tables:
            return "weights: none are held in integers, there are no convolutions or products"
        line = f"weights: those of {self.products} of {total} convolutions and products are held in {self.bits} bits"
        if self.tables:
            line += f", and {self.tables} {'tables' if self.tables > 1 else 'table'} of rows in 8"
        return f"{line}{kept_in_float(self.kept)}"


@dataclass(frozen=True)
class Integers:
    """A weight [inputs, outputs] in integers."""

    values: np.ndarray
    """int8 [inputs, outputs], or uint8 [⌈inputs / 32⌉, 16, outputs] with two integers of 4 bits in each."""
    scales: np.ndarray
    """float32 [groups, outputs]."""
    group: int
    """Inputs that share a scale."""


def hold_weights(module: "tvm.IRModule", precision: PrecisionConfig) -> tuple["tvm.IRModule", HeldWeights]:
    """The network with the weights of its products in integers; they have to be constants."""
    module = relax.transform.CanonicalizeBindings()(module)
    bits = 4 if precision.base == "int4_weights" else 8
    holder = _Holder(module, bits, precision.weight_group, precision.never)
    return relax.transform.DeadCodeElimination()(rewritten(module, holder)), holder.found


def integers_of(weight: np.ndarray, bits: int, group: int | None) -> Integers:
    """A weight [inputs, outputs] in integers.

    Args:
        weight: finite numbers.
        bits: 4 or 8.
        group: inputs that share a scale; None for all of them.
    """
    inputs, outputs = weight.shape
    size = min(group or inputs, inputs)
    count = -(-inputs // size)
    padded = np.zeros((count * size, outputs), np.float32)
    padded[:inputs] = weight
    grouped = padded.reshape(count, size, outputs).astype(np.float64)
    scales = _scales_of_8_bits(grouped) if bits == 8 else _scales_of_4_bits(grouped)
    values = _rounded(grouped, scales, bits).reshape(count * size, outputs)[:inputs].astype(np.int8)
    return Integers(values if bits == 8 else _packed(values), scales, size)


def _rounded(grouped: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    low = -(2 ** (bits - 1)) + (1 if bits == 8 else 0)
    return np.clip(np.rint(grouped / scales[:, None, :]), low, 2 ** (bits - 1) - 1)


def _normal(scales: np.ndarray) -> np.ndarray:
    """As float32, none of which is 0 or below the normal numbers."""
    signs = np.where(scales < 0, -1.0, 1.0)
    return np.asarray(np.where(scales == 0, 1.0, signs * np.clip(np.abs(scales), 2.0**-100, 2.0**100)), np.float32)


def _scales_of_8_bits(grouped: np.ndarray) -> np.ndarray:
    return _normal(np.abs(grouped).max(axis=1) / 127)


def _scales_of_4_bits(grouped: np.ndarray) -> np.ndarray:
    """That with the least squared error of a few: -8, the largest integer, stands for the number furthest from 0, or for a share of it."""
    below, above = grouped.min(axis=1), grouped.max(axis=1)
    furthest = np.where(-below >= above, below, above)
    best, least = _normal(furthest / -MIDDLE), np.full(furthest.shape, np.inf)
    for share in SHARES:
        scales = _normal(furthest * share / -MIDDLE)
        off = _rounded(grouped, scales, 4) * scales[:, None, :] - grouped
        # Summed up in one order everywhere, so that the choice is the same on all machines.
        error = np.zeros(furthest.shape)
        for place in range(grouped.shape[1]):
            error += off[:, place] * off[:, place]
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def _packed(values: np.ndarray) -> np.ndarray:
    inputs, outputs = values.shape
    filled = np.zeros((-(-inputs // BLOCK) * BLOCK, outputs), np.int8)
    filled[:inputs] = values
    blocks = (filled + MIDDLE).astype(np.uint8).reshape(-1, 2, HALF_BLOCK, outputs)
    return np.ascontiguousarray(blocks[:, 0] | (blocks[:, 1] << 4))


@mutator
class _Holder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", bits: int, group: int | None, never: Collection[str]):
        super().__init__(module)
        self.found = HeldWeights(bits)
        self._bits, self._group = bits, group
        self._never = {name.removeprefix("relax.") for name in never}
        self._tables = Tables(self.builder_)
        self._known: dict[Any, tuple[Any, Any, int]] = {}
        """Integers and scales of each weight, which several products may share."""
        self._names = {
            binding.value: str(binding.var.name)
            for binding in bindings(module["main"])
            if isinstance(binding, relax.VarBinding)
        }

    def visit_call_(self, op: Any) -> Any:
        if LOOKUP not in self._never and is_table(op):
            made = self._tables.looked_up(op, self.visit_expr(op.args[1]))
            self.found.tables = self._tables.count
            return made
        if is_call(op, "matmul", *CONVOLUTIONS, *OTHER_PRODUCTS):
            if (reason := self._obstacle(op)) is None:
                self.found.products += 1
                return self._product(op)
            self.found.kept.append((operator_name(op), self._names.get(op, ""), reason))
        return self.visit_expr_post_order(op)

    def _obstacle(self, call: Any) -> str | None:
        name = operator_name(call)
        if name in self._never:
            return "it is named under never"
        if name != "matmul":
            return "it is no product of matrices"
        weight = constant(call.args[1])
        if weight is None:
            return "its second operand is computed, not a weight"
        if str(weight.dtype) not in ("float32", "float16") or not str(call.args[0].ty.dtype).startswith("float"):
            return f"it is of type {call.ty.dtype}"
        if weight.ndim != 2 or call.args[0].ty.ndim < 2 or call.args[0].ty.shape is None or not weight.size:
            return "an operand is no matrix"
        if not np.isfinite(weight).all():
            return "its weights are not finite"
        return None

    def _product(self, call: Any) -> Any:
        x = self.visit_expr(call.args[0])
        values, scales, group = self._held(call.args[1])
        inputs = int(call.args[1].ty.shape[0])
        dtype, of_input = str(call.ty.dtype), str(call.args[0].ty.dtype)
        # float16 has no room for sums of integers as large as these.
        scales_sums = len(scales.value.numpy()) == 1 and dtype == "float32"
        unpacked = dtype if dtype == of_input else "float32"
        hint = f"int{self._bits}_matmul"
        attributes = {"op_pattern": FUSES_WHAT_FOLLOWS}
        if scales_sums:
            sums = self.builder_.call_te(
                lambda x, w: _matmul(x, _unpacked(w, None, inputs, group, self._bits, unpacked), dtype),
                x, values, primfunc_name_hint=hint, primfunc_attrs=attributes,
            )  # fmt: skip
            per_channel = relax.const(scales.value.numpy().reshape(-1), "float32")
            return relax.op.multiply(self.builder_.emit(sums), per_channel)
        return self.builder_.call_te(
            lambda x, w, s: _matmul(x, _unpacked(w, s, inputs, group, self._bits, unpacked), dtype),
            x, values, scales, primfunc_name_hint=hint, primfunc_attrs=attributes,
        )  # fmt: skip

    def _held(self, weight: Any) -> tuple[Any, Any, int]:
        if weight not in self._known:
            values = constant(weight)
            assert values is not None
            found = integers_of(values.astype(np.float32), self._bits, self._group)
            self._known[weight] = (relax.const(found.values), relax.const(found.scales, "float32"), found.group)
        return self._known[weight]


def _unpacked(values: Any, scales: Any | None, inputs: int, group: int, bits: int, dtype: str) -> Any:
    """The numbers that integers stand for, less their scales where these are applied to sums.

    ``targets.cpu.unpacking`` knows the block by its name.
    """

    def number(row: Any, column: Any) -> Any:
        if bits == 8:
            integer = values[row, column]
        else:
            word = tvm.tirx.Cast("uint32", values[row // BLOCK, row % HALF_BLOCK, column])
            half = tvm.tirx.shift_right(word, tvm.tirx.Cast("uint32", row % BLOCK // HALF_BLOCK * 4))
            low = tvm.tirx.bitwise_and(half, tvm.tirx.const(15, "uint32"))
            integer = tvm.tirx.Cast("float32", low) - tvm.tirx.const(float(MIDDLE), "float32")
        if scales is None:
            return integer.astype(dtype)
        return (integer.astype("float32") * scales[row // group, column]).astype(dtype)

    return te.compute((inputs, values.shape[-1]), number, name="unpacked")


def _matmul(x: Any, weight: Any, dtype: str) -> Any:
    """[..., inputs] by [inputs, outputs]."""
    inputs = te.reduce_axis((0, weight.shape[0]), name="k")

    def element(*place: Any) -> Any:
        left, right = x[(*place[:-1], inputs)], weight[inputs, place[-1]]
        return te.sum(left.astype(dtype) * right.astype(dtype), axis=inputs)

    shape: Sequence[Any] = [*x.shape[:-1], weight.shape[1]]
    return te.compute(shape, element, name="product")
