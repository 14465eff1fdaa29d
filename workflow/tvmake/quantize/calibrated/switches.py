"""A float network in which a switch rounds each layer to 8 bits, so that a layer's error is measured without a build.

``main`` takes a switch of 1 or 0 for each layer. Rounding is computed in float32, as in bias correction; sums of integers
differ from it only by the rounding of float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.ir.expressions import bindings, constant, is_call, operator_name
from tvmake.ir.rewriting import rewritten, with_functions
from tvmake.quantize.calibrated.bias import in_8_bits, round_weight
from tvmake.quantize.calibrated.insertion import READERS, grid
from tvmake.quantize.calibrated.sites import Sites
from tvmake.quantize.integers.affine import along
from tvmake.quantize.integers.products import CONVOLUTIONS
from tvmake.quantize.weights.channels import channel_axis
from tvmake.quantize.weights.tables import round_table

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


@dataclass(frozen=True)
class SwitchedLayer:
    """The layer of a switch: all products with one weight, or all lookups in one table."""

    operator: str
    """Relax's name: ``nn.conv2d``, ``take``."""
    names: tuple[str, ...]
    """Variables of its results in the float network."""


def with_switches(
    module: "tvm.IRModule", sites: Sites, ranges: Sequence[TensorRange], shifts: Sequence[Sequence[float]], inputs: int
) -> tuple["tvm.IRModule", list[SwitchedLayer]]:
    """Add a switch of shape [1] for each layer to ``main``'s arguments, after the inputs.

    Args:
        shifts: mean error of each channel of each product, to be subtracted; empty without bias correction.
        inputs: number of ``main``'s arguments that are the network's inputs.
    """
    numbers: dict[Any, int] = {}
    layers: list[tuple[str, list[str]]] = []
    calls = [(call, call.args[1]) for call in sites.products] + [(call, call.args[0]) for call in sites.tables]
    for call, weight in calls:
        if weight not in numbers:
            numbers[weight] = len(layers)
            layers.append((operator_name(call), []))
        layers[numbers[weight]][1].append(_name(module, call))
    switches = [relax.Var(f"switch_{number}", relax.TensorType((1,), "float32")) for number in range(len(layers))]
    changed = rewritten(
        module,
        _SwitchInserter(
            module, sites, ranges, shifts, {weight: switches[number] for weight, number in numbers.items()}
        ),
    )
    main = changed["main"]
    parameters = [*main.params[:inputs], *switches, *main.params[inputs:]]
    function = relax.Function(parameters, main.body, main.ret_ty, is_pure=main.is_pure, attrs=main.attrs)
    return with_functions(changed, {"main": function}), [
        SwitchedLayer(operator, tuple(names)) for operator, names in layers
    ]


def _name(module: "tvm.IRModule", call: Any) -> str:
    return next(str(binding.var.name) for binding in bindings(module["main"]) if call.same_as(binding.value))


@mutator
class _SwitchInserter(PyExprMutator):
    def __init__(
        self,
        module: "tvm.IRModule",
        sites: Sites,
        ranges: Sequence[TensorRange],
        shifts: Sequence[Sequence[float]],
        switches: dict[Any, Any],
    ):
        super().__init__(module)
        self._products = list(sites.products)
        self._tables = list(sites.tables)
        self._shifts = list(shifts)
        self._switches = switches
        grids = {tensor: grid(covered) for tensor, covered in zip(sites.tensors, ranges, strict=True)}
        self._grids = [grids[origin] for origin in sites.origins]
        # Other readers of a convolution's 8-bit input follow the switch of the first such convolution.
        self._maps: dict[Any, tuple[Any, Any]] = {}
        for product, origin in zip(sites.products, sites.origins, strict=True):
            if is_call(product, *CONVOLUTIONS):
                self._maps.setdefault(origin, (grids[origin], switches[product.args[1]]))
        self._read: dict[Any, Any] = {}

    def visit_call_(self, op: Any) -> Any:
        if any(op.same_as(lookup) for lookup in self._tables):
            return self._lookup(op)
        number = next((index for index, product in enumerate(self._products) if op.same_as(product)), None)
        if number is not None:
            return self._product(number, op)
        if not is_call(op, *READERS):
            return self.visit_expr_post_order(op)
        return relax.Call(op.op, [self._map(argument) for argument in op.args], op.attrs, op.ty_args)

    def _product(self, number: int, op: Any) -> Any:
        switch = self._switches[op.args[1]]
        operand = self.visit_expr(op.args[0])
        operand = self._select(operand, in_8_bits(self.builder_.emit, operand, *self._grids[number]), switch)
        rounding = round_weight(op) - np.asarray(constant(op.args[1]))
        weight = self._emit("add", op.args[1], self._emit("multiply", relax.const(rounding, "float32"), switch))
        product = self.builder_.emit(relax.Call(op.op, [operand, weight], op.attrs, op.ty_args))
        if not self._shifts:
            return product
        offsets = along(-np.asarray(self._shifts[number], np.float32), channel_axis(op), int(op.ty.ndim))
        return relax.op.add(product, self._emit("multiply", relax.const(offsets, "float32"), switch))

    def _lookup(self, op: Any) -> Any:
        table = np.asarray(constant(op.args[0]), np.float32)
        integers = round_table(table)
        rounding = integers.values.T.astype(np.float32) * np.asarray(integers.scales, np.float32).T - table
        rows = [self.visit_expr(op.args[1])]
        values, errors = (
            self.builder_.emit(relax.Call(op.op, [source, *rows], op.attrs, op.ty_args))
            for source in (op.args[0], relax.const(rounding, "float32"))
        )
        return relax.op.add(values, self._emit("multiply", errors, self._switches[op.args[0]]))

    def _map(self, argument: Any) -> Any:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._map(field) for field in argument.fields])
        value = self.visit_expr(argument)
        if argument not in self._maps:
            return value
        if argument not in self._read:
            parameters, switch = self._maps[argument]
            self._read[argument] = self._select(value, in_8_bits(self.builder_.emit, value, *parameters), switch)
        return self._read[argument]

    def _select(self, value: Any, alternative: Any, switch: Any) -> Any:
        return self._emit("add", value, self._emit("multiply", self._emit("subtract", alternative, value), switch))

    def _emit(self, operator: str, *arguments: Any) -> Any:
        return self.builder_.emit(getattr(relax.op, operator)(*arguments))
