"""Explain a network for whose goals 8 bits are too coarse: the layers with the most noise, and remedies that were verified."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvmake.artifact.calibration import Calibration
from tvmake.codegen.on_this_machine import runner
from tvmake.config.validation import Goals
from tvmake.debug.departure import difference
from tvmake.debug.diagnosis import Evidence, Finding, LayerNoise
from tvmake.debug.relax_values import trace_operators
from tvmake.debug.sample_goals import missed_by
from tvmake.errors import InputError
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.ir.expressions import bindings, constant, fixed_shape
from tvmake.quantize.calibrated.bias import rounded_weight
from tvmake.quantize.calibrated.insertion import grid
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.calibrated.switches import SwitchedLayer, with_switches
from tvmake.quantize.precision import LayerPrecision, PrecisionConfig
from tvmake.transform.graph import float_network, transform
from tvmake.transform.network_layers import network_layers
from tvmake.transform.options import TransformRequest
from tvmake.validate.reference.stored import ReferenceSample

MOST_NAMED = 3
"""Maximum number of layers in a line."""

OTHER_FAULT = 4.0
"""Noise above this multiple of rounding noise has another cause."""

Recalibrate = Callable[[PrecisionConfig], Calibration]
"""Calibrates again, with other options of a precision."""


@dataclass(frozen=True)
class LayerCost:
    """The effect on the network of one layer in 8 bits."""

    layer: SwitchedLayer
    share: float
    """The share of the noise of all layers, each measured separately."""
    error: float
    """Largest difference of an output, relative to its RMS."""

    @property
    def name(self) -> str:
        """``nn.conv2d 'lv3'``."""
        return f"{self.layer.operator} '{self.layer.names[0]}'"


@dataclass
class CoarseLayers:
    """A network whose int8 form misses goals that its float32 form meets.

    Args:
        samples: the reference's samples for the judgement, at least one.
        inputs: the names of the model's inputs, in order.
    """

    imported: "tvm.IRModule"
    weights: Mapping[str, Any]
    request: TransformRequest
    calibration: Calibration
    samples: Sequence[ReferenceSample]
    inputs: Sequence[str]
    goals: Goals
    recalibrate: Recalibrate | None = None
    layers: list[SwitchedLayer] = field(init=False)

    def __post_init__(self) -> None:
        self.network = float_network(self.imported, self.weights, self.request)
        self.sites = find_sites(self.network, self.request.precision.never)
        found = self.calibration
        module, self.layers = with_switches(
            self.network, self.sites, found.ranges, found.shifts, count := len(self.inputs)
        )
        self._run = runner(*lift_constants(module), count + len(self.layers))
        self._real = [self._switched(range(0), sample) for sample in self.samples]

    # --- what layers cost -----------------------------------------------------------------------------------------

    @cached_property
    def costs(self) -> list[LayerCost]:
        """The costs of all layers, the one with the most noise first."""
        noises, errors = [], []
        for number in range(len(self.layers)):
            outputs = [self._switched([number], sample) for sample in self.samples]
            noises.append(_noise(self._real, outputs))
            errors.append(max(map(difference, self._real[0], outputs[0])))
        total = sum(noises) or 1.0
        found = [
            LayerCost(*fields) for fields in zip(self.layers, [noise / total for noise in noises], errors, strict=True)
        ]
        return sorted(found, key=lambda cost: cost.share, reverse=True)

    def is_rounding(self, outputs: Sequence[np.ndarray]) -> bool:
        """Whether rounding explains the int8 network's outputs for the first sample."""
        expected = _noise(self._real[:1], [self._switched(range(len(self.layers)), self.samples[0])])
        return _noise(self._real[:1], [outputs]) <= OTHER_FAULT * expected

    def _switched(self, on: Sequence[int], sample: ReferenceSample) -> list[np.ndarray]:
        switches = np.zeros((len(self.layers), 1), np.float32)
        switches[list(on)] = 1
        return self._run([*(sample.inputs[name] for name in self.inputs), *switches])

    # --- what meets the goals -------------------------------------------------------------------------------------

    def _remedy(self, precision: str) -> str:
        """A verified remedy that meets the goals for the samples, in a line; empty without one.

        Args:
            precision: its name in the config.
        """
        for changes in self._alternative_calibrations():
            if self._meets_if(calibration=self.request.precision.calibration.model_copy(update=changes)):
                ((key, value),) = changes.items()
                return f"`precisions: {{{precision}: {{calibration: {{{key}: {value}}}}}}}` meets the goals"
        kept = self._kept()
        names = [cost.name for cost in kept]
        some = f"{', '.join(names[:MOST_NAMED])}{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''}"
        remedies = (
            [f"`base: auto` can leave {some} in float32, {len(names)} of {len(self.layers)} layers"] if kept else []
        )
        remedies += [
            f"`precisions: {{{precision}: {{never: [{', '.join(never)}]}}}}`" for never in self._never(len(kept))
        ]
        return f"{'; or '.join(remedies)}: that meets the goals" if remedies else ""

    def _alternative_calibrations(self) -> Iterator[dict[str, Any]]:
        if self.recalibrate is None:
            return
        options = self.request.precision.calibration
        yield from ({"method": method} for method in ("minmax", "percentile", "entropy") if method != options.method)
        if self.calibration.samples == options.samples:
            yield {"samples": 8 * options.samples}

    def _kept(self) -> list[LayerCost]:
        """The costliest layers that must stay in float32; empty if that does not help, or would leave no layer."""
        able = network_layers(self.network, ["float32", "int8"], self.request.precision.never)
        products = [cost for cost in self.costs if any(one.name in cost.layer.names for one in able)]
        for count in range(1, len(products)):
            off = {name for cost in products[:count] for name in cost.layer.names}
            on = [number for number, layer in enumerate(self.layers) if not off.intersection(layer.names)]
            if any(missed_by(sample.outputs, self._switched(on, sample), self.goals) for sample in self.samples):
                continue
            assignment: list[LayerPrecision] = [
                "int8" if "int8" in one.precisions and one.name not in off else "float32" for one in able
            ]
            chosen = PrecisionConfig(base="auto", among=["float32", "int8"], never=self.request.precision.never)
            if self._meets(self.request.model_copy(update={"precision": chosen}), self.calibration, assignment):
                return products[:count]
        return []

    def _never(self, enough: int) -> Iterator[list[str]]:
        """The operators of one kind that meet the goals if they stay in float32, unless that is all of them.

        Args:
            enough: how many single layers suffice; 0 if none do.
        """
        operators = list(dict.fromkeys(cost.layer.operator for cost in self.costs))
        for operator in operators if len(operators) > 1 and self.recalibrate else ():
            never = [*self.request.precision.never, operator]
            count = sum(cost.layer.operator == operator for cost in self.costs)
            if (not enough or count <= 2 * enough) and self._meets_if(never=never):
                yield never
                return

    def _meets_if(self, **changes: Any) -> bool:
        """Whether other options of the precision meet the goals."""
        if self.recalibrate is None:
            return False
        precision = self.request.precision.model_copy(update=changes)
        return self._meets(self.request.model_copy(update={"precision": precision}), self.recalibrate(precision), ())

    def _meets(self, request: TransformRequest, calibration: Calibration, assignment: Sequence[LayerPrecision]) -> bool:
        try:
            module, params = transform(self.imported, self.weights, request, calibration, assignment)
        except InputError:
            return False  # a user's pass that needs the unchanged network
        run = runner(module, params, len(self.inputs))
        return not any(
            missed_by(sample.outputs, run([sample.inputs[name] for name in self.inputs]), self.goals)
            for sample in self.samples
        )

    # --- the finding ----------------------------------------------------------------------------------------------

    def finding(self, precision: str, otherwise: str, evidence: Evidence) -> Finding:
        """The layer with the highest cost, the next ones, and the remedy.

        Args:
            precision: its name in the config.
            otherwise: the remedy if none of the tried ones meets the goals.
            evidence: receives the data of the layer.
        """
        first = self.costs[0]
        value = next(
            binding.var for binding in bindings(self.network["main"]) if str(binding.var.name) == first.layer.names[0]
        )
        if (alone := self._alone(first.layer)) is not None:
            operands, expected, got, code = alone
            evidence.arrays.update({f"input{number}": operand for number, operand in enumerate(operands)})
            evidence.arrays.update({"expected0": expected, "got": got})
            evidence.texts["layer.py"] = code
        return Finding(
            cause="precision",
            operator=f"relax.{first.layer.operator}",
            value=first.layer.names[0],
            shape=tuple(fixed_shape(value) or ()),
            dtype=str(value.ty.dtype),
            error=first.error if np.isfinite(first.error) else None,
            detail=f"8 bits are too coarse: {_shares(self.costs)} of the noise at the outputs",
            remedy=self._remedy(precision) or otherwise,
            layers=[
                LayerNoise(operator=cost.layer.operator, values=list(cost.layer.names), share=cost.share)
                for cost in self.costs
            ],
        )

    def _alone(self, layer: SwitchedLayer) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str] | None:
        """One layer on the first sample: operand and weight, its output, its output in 8 bits, and its code; None for a table."""
        names = [str(result.name) for result in self.sites.results]
        if layer.names[0] not in names:
            return None
        number = names.index(layer.names[0])
        call, origin = self.sites.products[number], self.sites.origins[number]
        module, params = lift_constants(self.network)
        values = [
            *(self.samples[0].inputs[name] for name in self.inputs),
            *(param.numpy() for param in params.values()),
        ]
        step = next(
            step for step in trace_operators(module, values).steps if step.name.rpartition("#")[0] == layer.names[0]
        )
        operand, weight = step.arguments[0], np.asarray(constant(call.args[1]))
        arguments = [relax.Var("data", call.args[0].ty), relax.Var("weight", call.args[1].ty)]
        builder = relax.BlockBuilder()
        with builder.function("main", arguments):
            with builder.dataflow():
                result = builder.emit_output(relax.Call(call.op, arguments, call.attrs, call.ty_args))
            builder.emit_func_output(result)
        ranges = dict(zip(self.sites.tensors, self.calibration.ranges, strict=True))
        coarse = trace_operators(builder.get(), [_in_8_bits(operand, *grid(ranges[origin])), rounded_weight(call)])
        return [operand, weight], step.result, coarse.outputs[0], str(builder.get())


def _shares(costs: Sequence[LayerCost]) -> str:
    """``62 % by nn.conv2d 'lv', 20 % by matmul 'lv9', 18 % by 3 more``."""
    named = [f"{cost.share:.0%} by {cost.name}" for cost in costs[:MOST_NAMED]]
    rest = costs[MOST_NAMED:]
    return ", ".join(named + ([f"{sum(cost.share for cost in rest):.0%} by {len(rest)} more"] if rest else []))


def _in_8_bits(values: np.ndarray, _dtype: str, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    steps = np.clip(np.rint(values / scale) + float(zero), 0, 255)
    return ((steps - float(zero)) * scale).astype(np.float32)


def _noise(expected: Sequence[Sequence[np.ndarray]], got: Sequence[Sequence[np.ndarray]]) -> float:
    """Power of the differences relative to the outputs' power, summed over samples and outputs."""
    total = 0.0
    for wants, haves in zip(expected, got, strict=True):
        for want, have in zip(wants, haves, strict=True):
            reference = np.asarray(want, np.float64)
            power = float(np.sum(np.square(reference))) or 1.0
            total += float(np.sum(np.square(np.asarray(have, np.float64) - reference))) / power
    return total
