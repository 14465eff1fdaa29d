"""Store weights of matmuls in 4 or 8 bits, with float arithmetic: kernels dequantise them as they multiply.

``narrow`` defines the format. Other weights that the source stores in integers, such as those of convolutions, are
dequantised by a separate kernel in each run, so that the package is as small as its source.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.ir.expressions import bindings, constant, is_call, operator_name
from tvmake.ir.rewriting import rewritten
from tvmake.process.output import counted
from tvmake.quantize.integers.coverage import kept_in_float
from tvmake.quantize.integers.products import CONVOLUTIONS, OTHER_PRODUCTS
from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.quantize.weights.narrow import BLOCK, HALF_BLOCK, MIDDLE, Integers, Spread, digest, integers_of
from tvmake.quantize.weights.tables import LOOKUP, Tables, is_table

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

FUSES_WHAT_FOLLOWS = 4
"""``OpPatternKind`` kOutEWiseFusable (include/tvm/relax/op_attr_types.h), the pattern of matmuls."""


@dataclass
class HeldWeights:
    """Summary of a network's weights in integers."""

    bits: int | None
    """Bits of rounded weights; None if the precision rounds none and only the source's integers are stored."""
    products: int = 0
    """Number of convolutions and matmuls with integer weights."""
    tables: int = 0
    """Number of tables with rows in 8-bit integers."""
    as_in_source: int = 0
    """Number of products and tables with the source's integers."""
    kept: list[tuple[str, str, str]] = field(default_factory=list)
    """Operator, name and reason of each product whose weights stay in float."""

    def coverage(self) -> str:
        """Describe in one line how many weights are integers, with reasons for the others; empty if none was expected."""
        if self.bits is None:
            tables = f" and {counted(self.tables, 'table')}" if self.tables else ""
            products = counted(self.products, "product")
            return f"weights: those of {products}{tables} stay the source's integers" if self.as_in_source else ""
        total = self.products + len(self.kept)
        if not total and not self.tables:
            return "weights: none are stored in integers, there are no convolutions or matmuls"
        line = f"weights: those of {self.products} of {total} convolutions and matmuls are stored in {self.bits} bits"
        if self.tables:
            line += f", and {self.tables} {'tables' if self.tables > 1 else 'table'} of rows in 8"
        if self.as_in_source:
            line += f"; {self.as_in_source} of them stay the source's integers"
        return f"{line}{kept_in_float(self.kept)}"


def hold_weights(
    module: "tvm.IRModule", precision: PrecisionConfig, known: Mapping[str, Integers | Spread]
) -> tuple["tvm.IRModule", HeldWeights]:
    """Store the weights of matmuls, which must be constants, in integers.

    Args:
        precision: a weight-only base rounds weights; others only keep the source's integers.
        known: the source's integers (``quantize.source.weights``), which are stored unchanged.
    """
    if precision.base not in WEIGHTS_ONLY and not known:
        return module, HeldWeights(None)
    module = relax.transform.CanonicalizeBindings()(module)
    holder = _WeightHolder(module, precision, known)
    return relax.transform.DeadCodeElimination()(rewritten(module, holder)), holder.weights


@mutator
class _WeightHolder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", precision: PrecisionConfig, known: Mapping[str, Integers | Spread]):
        super().__init__(module)
        self._rounds = precision.base in WEIGHTS_ONLY
        self._bits, self._group = 4 if precision.base == "int4_weights" else 8, precision.weight_group
        self.weights = HeldWeights(self._bits if self._rounds else None)
        self._never: Collection[str] = {name.removeprefix("relax.") for name in precision.never}
        self._tables = Tables(self.builder_)
        self._source = known
        self._known: dict[Any, Integers | Spread | None] = {}
        """The source's integers by weight; several products may share a weight."""
        self._stored: dict[Any, tuple[Integers, list[Any]]] = {}
        """Integers and their Relax constants, by weight."""
        self._real: dict[Any, Any] = {}
        """Variables of weights that a separate kernel dequantises."""
        self._names = {
            binding.value: str(binding.var.name)
            for binding in bindings(module["main"])
            if isinstance(binding, relax.VarBinding)
        }

    def visit_call_(self, op: Any) -> Any:
        if LOOKUP not in self._never and is_table(op):
            source = self._source_integers(op.args[0])
            known = source if isinstance(source, Integers) else None
            if known is not None or self._rounds:
                self.weights.as_in_source += known is not None
                rows = self._tables.look_up(op, self.visit_expr(op.args[1]), known)
                self.weights.tables = self._tables.count
                return rows
        if is_call(op, "matmul", *CONVOLUTIONS, *OTHER_PRODUCTS):
            source = self._source_integers(op.args[1]) if len(op.args) > 1 else None
            if isinstance(source, Spread):
                self.weights.products += 1
                self.weights.as_in_source += 1
                return self._with_real_weight(op, source)
            known = source
            reason = self._obstacle(op)
            if reason is None and (known is not None or self._rounds):
                self.weights.products += 1
                self.weights.as_in_source += known is not None
                return self._product(op)
            if reason is not None:
                self.weights.kept.append((operator_name(op), self._names.get(op, ""), reason))
        return self.visit_expr_post_order(op)

    def _source_integers(self, weight: Any) -> Integers | Spread | None:
        """Return the source's integers of a weight or a table."""
        if not self._source:
            return None
        if weight not in self._known:
            values = constant(weight)
            self._known[weight] = None if values is None else self._source.get(digest(values))
        return self._known[weight]

    def _with_real_weight(self, call: Any, integers: Spread) -> Any:
        """Replace the weight of a call by the dequantised integers of the source."""
        weight, emit, op = call.args[1], self.builder_.emit, relax.op
        if weight not in self._real:
            real = emit(op.astype(relax.const(spill_tensor(integers.values)), "float32"))
            if integers.zeros is not None:
                real = emit(op.subtract(real, relax.const(integers.zeros)))
            real = emit(op.multiply(real, relax.const(integers.scales)))
            dtype = str(weight.ty.dtype)
            self._real[weight] = real if dtype == "float32" else emit(op.astype(real, dtype))
        others = [self.visit_expr(argument) for argument in (call.args[0], *call.args[2:])]
        return relax.Call(call.op, [others[0], self._real[weight], *others[1:]], call.attrs, call.ty_args)

    def _obstacle(self, call: Any) -> str | None:
        name = operator_name(call)
        if name in self._never:
            return "it is named under never"
        if name != "matmul":
            return "it is not a matmul"
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
        weight, (values, *parameters) = self._constants(call.args[1])
        inputs = int(call.args[1].ty.shape[0])
        dtype, input_dtype = str(call.ty.dtype), str(call.args[0].ty.dtype)
        # Sums of integers would overflow float16.
        scales_sums = len(weight.scales) == 1 and weight.zeros is None and dtype == "float32"
        weight_dtype = dtype if dtype == input_dtype else "float32"

        def product(x: Any, w: Any, *others: Any) -> Any:
            return _matmul(x, _unpack(w, others, inputs, weight, weight_dtype), dtype)

        sums = self.builder_.call_te(
            product, x, values, *([] if scales_sums else parameters),
            primfunc_name_hint=f"int{weight.bits}_matmul", primfunc_attrs={"op_pattern": FUSES_WHAT_FOLLOWS},
        )  # fmt: skip
        if not scales_sums:
            return sums
        return relax.op.multiply(self.builder_.emit(sums), relax.const(weight.scales.reshape(-1), "float32"))

    def _constants(self, weight: Any) -> tuple[Integers, list[Any]]:
        """Return the integers of a weight, and their values, scales and zero points as Relax constants."""
        if weight not in self._stored:
            integers = self._source_integers(weight)
            if not isinstance(integers, Integers):
                values = constant(weight)
                assert values is not None
                integers = integers_of(values, self._bits, self._group)
            arrays = [integers.values, integers.scales, *([] if integers.zeros is None else [integers.zeros])]
            self._stored[weight] = integers, [relax.const(spill_tensor(array)) for array in arrays]
        return self._stored[weight]


def _unpack(values: Any, parameters: Sequence[Any], inputs: int, weight: Integers, dtype: str) -> Any:
    """Dequantise integers in a kernel; without ``parameters``, scales are applied to the sums instead.

    ``targets.cpu.unpacking`` recognises the block by its name.

    Args:
        parameters: scales and optional zero points.
    """

    def number(row: Any, column: Any) -> Any:
        if weight.bits == 8:
            integer = values[row, column]
        else:
            word = tvm.tirx.Cast("uint32", values[row // BLOCK, row % HALF_BLOCK, column])
            half = tvm.tirx.shift_right(word, tvm.tirx.Cast("uint32", row % BLOCK // HALF_BLOCK * 4))
            low = tvm.tirx.bitwise_and(half, tvm.tirx.const(15, "uint32"))
            integer = tvm.tirx.Cast("float32", low) - tvm.tirx.const(float(MIDDLE), "float32")
        if not parameters:
            return integer.astype(dtype)
        scales, *zeros = parameters
        real = integer.astype("float32")
        for zero in zeros:
            real = real - zero[row // weight.group, column].astype("float32")
        return (real * scales[row // weight.group, column]).astype(dtype)

    return te.compute((inputs, values.shape[-1]), number, name="unpacked")


def _matmul(x: Any, weight: Any, dtype: str) -> Any:
    """Multiply [..., inputs] by [inputs, outputs]."""
    inputs = te.reduce_axis((0, weight.shape[0]), name="k")

    def element(*place: Any) -> Any:
        left, right = x[(*place[:-1], inputs)], weight[inputs, place[-1]]
        return te.sum(left.astype(dtype) * right.astype(dtype), axis=inputs)

    shape: Sequence[Any] = [*x.shape[:-1], weight.shape[1]]
    return te.compute(shape, element, name="product")
