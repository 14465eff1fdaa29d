"""Multiply a single row by integer weights group by group: a group's integers are summed before its scale is applied.

Such a matmul, the step of a decoder, takes the time in which its weights arrive from memory, if the core computes little for each: per
vector of weights it converts them to float and multiplies, and per group it applies scale and zero point once:
Σ (integer − zero) · scale · x = scale · (Σ integer · x − zero · Σ x).

Eight 4-bit integers are a word of 32 bits. Masks select them without a shift, in units of 1, 16, 256 and 4096, by which the row's values are
divided before; powers of two are exact.

Kernels with several rows dequantise each weight once for all of them (:mod:`tvmake.targets.cpu.unpacking`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import bindings, dtype_name, fixed_shape, variables
from tvmake.ir.rewriting import rewritten
from tvmake.targets.cpu.schedules.accesses import loads_in
from tvmake.targets.cpu.schedules.grouped_sums import GROUPS, PART, RESULTS, ROW, ROW_SUMS
from tvmake.targets.cpu.unpacking import is_unpacking
from tvmake.targets.weights.layout_free import is_tensor_call

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

FEWEST_LANES = 4
"""Minimum number of float32 values in a vector of a CPU that gains."""

FUSES_WHAT_FOLLOWS = 4
"""``OpPatternKind`` kOutEWiseFusable (include/tvm/relax/op_attr_types.h)."""

MIDDLE = 8
"""Zero point of 4-bit integers (``quantize.weights.narrow``)."""

WORD, HALF = 8, 4
"""4-bit integers in a word, and in half of one, whose upper bit is never a float's sign."""


def sum_by_groups(module: "tvm.IRModule", lanes: int, inputs: int) -> "tvm.IRModule":
    """Rewrite matmuls of one row by weights with a scale for each group.

    Args:
        module: with kernels that are not fused yet.
        lanes: number of float32 values in a vector of the CPU.
        inputs: number of model inputs among ``main``'s arguments; the others are weights.
    """
    if lanes < FEWEST_LANES:
        return module
    return relax.transform.DeadCodeElimination()(rewritten(module, _GroupedSumMutator(module, lanes, inputs)))


@dataclass(frozen=True)
class _GroupedWeight:
    """The weight of such a matmul."""

    bits: int
    inputs: int
    outputs: int
    group: int
    """Number of inputs that share a scale."""
    block: int
    """Number of inputs whose 4-bit integers share rows of bytes."""
    has_zeros: bool


@mutator
class _GroupedSumMutator(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", lanes: int, inputs: int):
        super().__init__(module)
        self._module, self._lanes = module, lanes
        calls = [binding.value for binding in bindings(module["main"]) if isinstance(binding, relax.VarBinding)]
        others = {operand for call in calls if not self._weight(call) for operand in variables(call)}
        self._weights = set(module["main"].params[inputs:]) - others
        """Weights that no other kernel reads, which would need them in another order."""

    def _weight(self, call: Any) -> _GroupedWeight | None:
        """The weight of a matmul that gains; None for other calls."""
        if not is_tensor_call(call) or len(call.args) != 2:
            return None
        weight = _grouped_weight(self._module[call.args[0]])
        return weight if weight and weight.outputs % self._lanes == 0 else None

    def visit_call_(self, op: Any) -> Any:
        weight, call = self._weight(op), self.visit_expr_post_order(op)
        if weight is None:
            return call
        row, *operands = call.args[1].fields
        if not set(operands) <= self._weights:
            return call
        if weight.bits == 4:
            operands[0] = self.builder_.emit(
                self.builder_.call_te(_words, operands[0], primfunc_name_hint="int4_words")
            )

        def kernel(x: Any, *arrays: Any) -> Any:
            return _matmul(weight, list(map(int, call.ty_args[0].shape)), x, *arrays)

        return self.builder_.call_te(
            kernel, row, *operands,
            primfunc_name_hint=str(call.args[0].name_hint), primfunc_attrs={"op_pattern": FUSES_WHAT_FOLLOWS},
        )  # fmt: skip


def _grouped_weight(function: Any) -> _GroupedWeight | None:
    """The weight of a matmul of one row; None for other kernels."""
    if not isinstance(function, tvm.tirx.PrimFunc) or not 4 <= len(function.params) <= 5:
        return None
    if not all(hasattr(parameter.ty, "shape") for parameter in function.params):
        return None
    row, values, scales, *zeros, result = function.params
    block = _unpacking_block(function)
    if block is None or {dtype_name(part.ty) for part in (row, scales, result, block.body.buffer)} != {"float32"}:
        return None
    x, stored, scaled, y = (fixed_shape(part) or [] for part in (row, values, scales, result))
    if not all((x, stored, scaled, y)):
        return None  # a dimension is dynamic
    groups, outputs = scaled
    inputs = x[-1]
    group = inputs if groups == 1 else _divisor(block, scales)
    size = 2 * stored[1] if len(stored) == 3 else 1
    if any(extent != 1 for extent in (*x[:-1], *y[:-1])) or not group or groups * group != inputs or group % size:
        return None
    return _GroupedWeight(4 if len(stored) == 3 else 8, inputs, outputs, group, size, bool(zeros))


def _unpacking_block(function: Any) -> Any | None:
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, blocks.append))
    return next((block for block in blocks if is_unpacking(block)), None)


def _divisor(block: Any, scales: Any) -> int:
    """The number of inputs that share a scale, from the index ``row // group``; 0 for other indices."""
    for load in loads_in(block.body.value):
        if load.source.same_as(scales) and isinstance(load.indices[0], tvm.tirx.FloorDiv):
            return int(load.indices[0].b)
    return 0


def _words(values: Any) -> Any:
    """Pack bytes [blocks, bytes, outputs] in words [blocks, bytes / 4, outputs]."""
    blocks, count, outputs = map(int, values.shape)

    def word(block: Any, index: Any, column: Any) -> Any:
        parts = [values[block, HALF * index + byte, column].astype("uint32") << (8 * byte) for byte in range(HALF)]
        return parts[0] | parts[1] | parts[2] | parts[3]

    return te.compute(tuple(map(_index, (blocks, count // HALF, outputs))), word, "words")


def _matmul(weight: _GroupedWeight, shape: Sequence[int], row: Any, values: Any, scales: Any, *zeros: Any) -> Any:
    """The matmul, in the parts that ``schedules.grouped_sums`` schedules."""
    count = weight.inputs // weight.group

    def x(index: Any) -> Any:
        return row[(*[0] * (len(row.shape) - 1), index)]

    products = _products_of_words(weight, values, x) if weight.bits == 4 else _products_of_bytes(weight, values, x)
    row_sums = None
    if weight.bits == 4 or zeros:
        index = _axis(weight.group, "k")
        row_sums = _part(ROW_SUMS, (count,), lambda group: te.sum(x(group * weight.group + index), [index]))
    groups = _axis(count, "group")

    def element(*indices: Any) -> Any:
        column, total = indices[-1], products[groups, indices[-1]]
        if row_sums is not None:
            zero: Any = _number(MIDDLE if weight.bits == 4 else 0)
            for part in zeros:
                zero = zero + part[groups, column].astype("float32")
            total = total - zero * row_sums[groups]
        return te.sum(total * scales[groups, column], [groups])

    return _part(RESULTS, shape, element)


def _products_of_bytes(weight: _GroupedWeight, values: Any, x: Callable[[Any], Any]) -> Any:
    """Sums of the products of a group's values and 8-bit integers."""
    index = _axis(weight.group, "k")

    def element(group: Any, column: Any) -> Any:
        place = group * weight.group + index
        return te.sum(x(place) * values[place, column].astype("float32"), [index])

    return _part(GROUPS, (weight.inputs // weight.group, weight.outputs), element)


def _products_of_words(weight: _GroupedWeight, words: Any, x: Callable[[Any], Any]) -> Any:
    """Sums of the products of a group's values and 4-bit integers."""
    blocks, count = weight.group // weight.block, weight.block // WORD
    shape = (weight.inputs // weight.block, count, WORD)

    def value(block: Any, word: Any, number: Any) -> Any:
        # Bytes have two integers: inputs that are half a block apart.
        place = block * weight.block + number % 2 * (weight.block // 2) + word * HALF + number // 2
        return x(place) / (_index(1) << (number % HALF * 4)).astype("float32")

    row = _part(ROW, shape, value)
    block, word, number = _axis(blocks, "block"), _axis(count, "word"), _axis(WORD, "number")

    def element(group: Any, column: Any) -> Any:
        half = words[group * blocks + block, word, column] >> (number // HALF * 16).astype("uint32")
        integer = half & (tvm.tirx.const(15, "uint32") << (number % HALF * 4).astype("uint32"))
        return te.sum(row[group * blocks + block, word, number] * integer.astype("float32"), [block, word, number])

    return _part(GROUPS, (weight.inputs // weight.group, weight.outputs), element)


def _number(value: float) -> Any:
    return tvm.tirx.const(float(value), "float32")


def _axis(extent: int, name: str) -> Any:
    return te.reduce_axis((_index(0), _index(extent)), name)


def _index(value: int) -> Any:
    return tvm.tirx.IntImm("int64", value)


def _part(name: str, shape: Sequence[int], value: Callable[..., Any]) -> Any:
    return te.compute(tuple(map(_index, shape)), value, f"grouped_{name}", attrs={PART: name})
