"""Quantise a float network: insert ``quantize`` and ``dequantize`` around its products, with ranges from calibration.

Weights are symmetric with a scale for each output channel; tables have a scale for each row. Activations have one scale
and one zero point: they cover the range from the smallest to the largest value, and represent 0 exactly.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.errors import InputError
from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten
from tvmake.quantize.calibrated.sites import Sites
from tvmake.quantize.integers.affine import along, dequantize
from tvmake.quantize.integers.conversion import MOVES
from tvmake.quantize.integers.products import CONVOLUTIONS
from tvmake.quantize.weights.channels import channel_axis, step, weight_integers
from tvmake.quantize.weights.tables import Tables

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

READERS = frozenset(
    {"add", "subtract", "multiply", "concat", "mean", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "nn.relu"}
)
"""Operators that read the quantised input of a convolution instead of the float tensor, which then needs no memory.

Feature maps take most of a network's memory. Tensors that only matmuls read in 8 bits are small. They are often the
residual stream of a transformer, where rounding errors would add up from block to block.
"""


def insert(
    module: "tvm.IRModule", sites: Sites, ranges: Sequence[TensorRange], shifts: Sequence[Sequence[float]] = ()
) -> "tvm.IRModule":
    """Quantise the sites of a network.

    Args:
        shifts: mean error of each channel of each product, to be subtracted; empty without bias correction.

    Raises:
        InputError: the ranges belong to another network.
    """
    if len(ranges) != len(sites.tensors):
        raise InputError(
            "calibration.json", f"has {len(ranges)} ranges for {len(sites.tensors)} tensors", "delete it and run again"
        )
    channels = [weight_integers(product)[1].size for product in sites.products] if shifts else []
    if [len(shift) for shift in shifts] != channels:
        raise InputError("calibration.json", "corrects other channels than the network has", "delete it and run again")
    grids = {tensor: grid(covered) for tensor, covered in zip(sites.tensors, ranges, strict=True)}
    maps = [
        origin for product, origin in zip(sites.products, sites.origins, strict=True) if is_call(product, *CONVOLUTIONS)
    ]
    return rewritten(module, _QuantizeInserter(module, grids, maps, sites, shifts))


def grid(covered: TensorRange) -> tuple[str, np.ndarray, np.ndarray]:
    """Return dtype, scale and zero point for a range."""
    low, high = min(0.0, covered.low), max(0.0, covered.high)
    scale = step((high - low) / 255)
    return "uint8", np.asarray(scale, np.float32), np.asarray(np.clip(round(-low / scale), 0, 255), np.uint8)


@mutator
class _QuantizeInserter(PyExprMutator):
    def __init__(
        self,
        module: "tvm.IRModule",
        grids: dict[Any, Any],
        maps: Sequence[Any],
        sites: Sites,
        shifts: Sequence[Sequence[float]],
    ):
        super().__init__(module)
        self._grids = grids
        self._maps = {tensor: grids[tensor] for tensor in maps}
        self._products = list(sites.products)
        self._lookups = sites.tables
        self._tables = Tables(self.builder_)
        self._shifts = list(shifts)
        self._real: dict[Any, Any] = {}
        self._weights: dict[tuple[Any, int], Any] = {}
        """Integers by weight and scale axis; all steps of a recurrent network share a weight."""

    def visit_call_(self, op: Any) -> Any:
        if any(op.same_as(lookup) for lookup in self._lookups):
            return self._tables.look_up(op, self.visit_expr(op.args[1]))
        number = next((index for index, product in enumerate(self._products) if op.same_as(product)), None)
        if number is None and not is_call(op, *MOVES, *READERS):
            return self.visit_expr_post_order(op)
        read = self._maps if is_call(op, *READERS) else self._grids
        arguments = [self._quantize(argument, read) for argument in op.args]
        if number is None:
            return relax.Call(op.op, arguments, op.attrs, op.ty_args)
        arguments[1] = self._weight(op)
        return self._correct(number, relax.Call(op.op, arguments, op.attrs, op.ty_args))

    def _quantize(self, argument: Any, read: Collection[Any]) -> Any:
        """Quantise and dequantise an argument if it is in ``read``."""
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._quantize(field, read) for field in argument.fields])
        if argument not in read:
            return self.visit_expr(argument)
        if argument not in self._real:
            dtype, scale, zero = self._grids[argument]
            values = relax.op.quantize(
                self.visit_expr(argument), relax.const(scale), relax.const(zero, dtype), axis=0, out_dtype=dtype
            )
            self._real[argument] = self.builder_.emit(dequantize(self.builder_.emit(values), scale, zero, 0))
        return self._real[argument]

    def _weight(self, call: Any) -> Any:
        integers, scale, axis = weight_integers(call)
        weight = self._weights.setdefault((call.args[1], axis), relax.const(spill_tensor(integers), "int8"))
        return self.builder_.emit(dequantize(weight, scale, np.zeros(scale.shape, np.int8), axis))

    def _correct(self, number: int, product: Any) -> Any:
        """Subtract the mean error of each channel from a product."""
        if not self._shifts or not any(self._shifts[number]):
            return product
        offsets = -np.asarray(self._shifts[number], np.float32)
        product = self.builder_.emit(product)
        rank = int(product.ty.ndim)
        axis = channel_axis(self._products[number])
        return relax.op.add(product, relax.const(along(offsets, axis, rank), "float32"))
