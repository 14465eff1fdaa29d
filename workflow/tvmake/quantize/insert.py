"""Quantise a float network: calls of ``quantize`` and ``dequantize`` around its products, by ranges that calibration found.

Weights get a scale for each output channel and are symmetric. Activations have one scale and zero point: unsigned from 0 where
nothing is negative; symmetric where a convolution reads them with a border, whose zeros are the integer 0 then; else from the
smallest value to the largest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.errors import InputError
from tvmake.quantize.affine import constant, dequantize, is_call
from tvmake.quantize.integers import MOVES
from tvmake.quantize.sites import Sites

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

READERS = frozenset(
    {*MOVES, "add", "subtract", "multiply", "concat", "mean", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "nn.relu"}
)
"""Operators besides products that read a quantised tensor rather than the float one, which need not be kept then."""

LARGEST_WEIGHT = 127


def insert(module: "tvm.IRModule", sites: Sites, ranges: Sequence[TensorRange]) -> "tvm.IRModule":
    """The network with its sites quantised.

    Raises:
        InputError: there are not as many ranges as tensors: they are another network's.
    """
    if len(ranges) != len(sites.tensors):
        raise InputError(
            "calibration.json", f"has {len(ranges)} ranges for {len(sites.tensors)} tensors", "delete it and run again"
        )
    grids = {
        tensor: _grid(found, has_border)
        for tensor, found, has_border in zip(sites.tensors, ranges, sites.has_border, strict=True)
    }
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = _Insertion(module, grids, sites.products).visit_expr(module["main"])
    return changed


def _grid(found: TensorRange, has_border: bool) -> tuple[str, np.ndarray, np.ndarray]:
    """Element type, scale and zero point."""
    low, high = min(0.0, found.low), max(0.0, found.high)
    if low == 0.0:
        return "uint8", np.asarray(_step(high / 255), np.float32), np.zeros((), np.uint8)
    if has_border:
        return "int8", np.asarray(_step(max(-low, high) / 127), np.float32), np.zeros((), np.int8)
    scale = _step((high - low) / 255)
    return "uint8", np.asarray(scale, np.float32), np.asarray(np.clip(round(-low / scale), 0, 255), np.uint8)


def _step(value: float) -> float:
    """A scale that is a normal number, its inverse too."""
    return float(np.clip(value, 2.0**-100, 2.0**100)) if value else 1.0


@mutator
class _Insertion(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", grids: dict[Any, Any], products: Sequence[Any]):
        super().__init__(module)
        self._grids = grids
        self._products = list(products)
        self._real: dict[Any, Any] = {}

    def visit_call_(self, op: Any) -> Any:
        is_product = any(op.same_as(product) for product in self._products)
        if not is_product and not is_call(op, *READERS):
            return self.visit_expr_post_order(op)
        arguments = [self._quantized(argument) for argument in op.args]
        if is_product:
            arguments[1] = self._weight(op)
        return relax.Call(op.op, arguments, op.attrs, op.ty_args)

    def _quantized(self, argument: Any) -> Any:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._quantized(field) for field in argument.fields])
        if argument not in self._grids:
            return self.visit_expr(argument)
        if argument not in self._real:
            dtype, scale, zero = self._grids[argument]
            values = relax.op.quantize(
                self.visit_expr(argument), relax.const(scale), relax.const(zero, dtype), axis=0, out_dtype=dtype
            )
            self._real[argument] = self.builder_.emit(dequantize(self.builder_.emit(values), scale, zero, 0))
        return self._real[argument]

    def _weight(self, call: Any) -> Any:
        values = constant(call.args[1])
        assert values is not None
        axis = values.ndim - 1 if is_call(call, "matmul") else str(call.attrs.kernel_layout).index("O")
        others = tuple(place for place in range(values.ndim) if place != axis)
        largest = np.abs(values).max(axis=others, initial=0).astype(np.float64)
        scale = np.asarray([_step(value / LARGEST_WEIGHT) for value in largest], np.float32)
        spread = scale.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
        integers = np.clip(np.rint(values / spread), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
        return self.builder_.emit(
            dequantize(relax.const(integers, "int8"), scale, np.zeros(scale.shape, np.int8), axis)
        )
