"""Explain a network for whose goals 8 bits are too coarse: the layers with the most noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import Calibration
from tvmake.codegen.on_this_machine import runner
from tvmake.debug.departure import difference
from tvmake.debug.diagnosis import Finding, LayerNoise
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.ir.expressions import bindings, fixed_shape
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.calibrated.switches import SwitchedLayer, with_switches
from tvmake.transform.graph import float_network
from tvmake.transform.options import TransformRequest
from tvmake.validate.reference.stored import ReferenceSample

MOST_NAMED = 3
"""Maximum number of layers in a line."""

OTHER_FAULT = 4.0
"""Noise above this multiple of rounding noise has another cause."""


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


class CoarseLayers:
    """A network whose int8 form misses goals that its float32 form meets.

    Args:
        sample: the reference's sample for the judgement.
    """

    def __init__(
        self,
        imported: "tvm.IRModule",
        weights: Mapping[str, Any],
        request: TransformRequest,
        calibration: Calibration,
        sample: ReferenceSample,
        inputs: Sequence[str],
    ):
        self.network = float_network(imported, weights, request)
        sites = find_sites(self.network, request.precision.never)
        module, self.layers = with_switches(self.network, sites, calibration.ranges, calibration.shifts, len(inputs))
        self._run = runner(*lift_constants(module), len(inputs) + len(self.layers))
        self._inputs = [sample.inputs[name] for name in inputs]
        self._real = self._outputs_with(range(0))

    @cached_property
    def costs(self) -> list[LayerCost]:
        """The costs of all layers, the one with the most noise first."""
        noises, errors = [], []
        for number in range(len(self.layers)):
            outputs = self._outputs_with([number])
            noises.append(_noise(self._real, outputs))
            errors.append(max(map(difference, self._real, outputs)))
        total = sum(noises) or 1.0
        costs = [
            LayerCost(layer, noise / total, error)
            for layer, noise, error in zip(self.layers, noises, errors, strict=True)
        ]
        return sorted(costs, key=lambda cost: cost.share, reverse=True)

    def is_rounding(self, outputs: Sequence[np.ndarray]) -> bool:
        """Whether rounding explains the int8 network's outputs for the sample."""
        expected = _noise(self._real, self._outputs_with(range(len(self.layers))))
        return _noise(self._real, outputs) <= OTHER_FAULT * expected

    def _outputs_with(self, on: Sequence[int]) -> list[np.ndarray]:
        """The outputs with some layers in 8 bits."""
        switches = np.zeros((len(self.layers), 1), np.float32)
        switches[list(on)] = 1
        return self._run([*self._inputs, *switches])

    def finding(self, remedy: str) -> Finding:
        """The layer with the highest cost, and the next ones."""
        first = self.costs[0]
        value = next(
            binding.var for binding in bindings(self.network["main"]) if str(binding.var.name) == first.layer.names[0]
        )
        return Finding(
            cause="precision",
            operator=f"relax.{first.layer.operator}",
            value=first.layer.names[0],
            shape=tuple(fixed_shape(value) or ()),
            dtype=str(value.ty.dtype),
            error=first.error if np.isfinite(first.error) else None,
            detail=f"8 bits are too coarse: {_shares(self.costs)} of the noise at the outputs",
            remedy=remedy,
            layers=[
                LayerNoise(operator=cost.layer.operator, values=list(cost.layer.names), share=cost.share)
                for cost in self.costs
            ],
        )


def _shares(costs: Sequence[LayerCost]) -> str:
    """``62 % by nn.conv2d 'lv', 20 % by matmul 'lv9', 18 % by 3 more``."""
    named = [f"{cost.share:.0%} by {cost.name}" for cost in costs[:MOST_NAMED]]
    rest = costs[MOST_NAMED:]
    return ", ".join(named + ([f"{sum(cost.share for cost in rest):.0%} by {len(rest)} more"] if rest else []))


def _noise(expected: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> float:
    """Power of the differences relative to the outputs' power, summed over outputs."""
    total = 0.0
    for want, have in zip(expected, got, strict=True):
        reference = np.asarray(want, np.float64)
        power = float(np.sum(np.square(reference))) or 1.0
        total += float(np.sum(np.square(np.asarray(have, np.float64) - reference))) / power
    return total
