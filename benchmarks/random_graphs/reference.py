"""The reference values of a network, and whether rounding determines them."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from tvmake.config.validation import Goals, goals_for
from tvmake.validate.numerics import Comparison

from .network import Kind, Network, Program

NOISE = {"float32": 2e-6, "float16": 2.0**-10, "float16_acc32": 2.0**-10}
"""Rounding errors as a share of a value's RMS, some times larger than one rounding makes them."""

DRAWS = 3


def outputs(program: Program, inputs: list[Tensor]) -> list[np.ndarray]:
    """The outputs in torch."""
    with torch.no_grad():
        values = program.values(inputs)
    return [values[number].numpy() for number in program.network.outputs]


def is_judgeable(
    network: Network, kinds: Mapping[str, Kind], precision: str, sizes: Mapping[str, int] | None = None
) -> bool:
    """Whether outputs stay within the goals when every value is disturbed as much as rounding may disturb it.

    Where an argmax ties, a difference cancels or a comparison hangs on the last bit, two right implementations differ.

    Args:
        sizes: of dynamic dimensions; those that the network is drawn with by default.
    """
    program = Program(network, kinds)
    inputs = network.examples(sizes)
    expected = outputs(program, inputs)
    generator = torch.Generator().manual_seed(network.seed)

    def disturb(value: Tensor) -> Tensor:
        if value.dtype != torch.float32 or not value.numel():
            return value
        if precision != "float32" and value.abs().max() > 6e4:
            return value * torch.inf  # no number of float16
        size = value.square().mean().sqrt() * NOISE[precision]
        # Zeros stay: masks, padding and activations give them exactly.
        return torch.where(value == 0, value, value + size * torch.randn(value.shape, generator=generator))

    for _ in range(DRAWS):
        with torch.no_grad():
            values = program.values(inputs, disturb)
        if problem(expected, [values[number].numpy() for number in network.outputs], goals_for(precision)):
            return False
    return True


def problem(expected: list[np.ndarray], got: list[np.ndarray], goals: Goals) -> str | None:
    """Why outputs are not those expected; None where they are."""
    if len(expected) != len(got):
        return f"{len(got)} outputs, not {len(expected)}"
    for number, (one, other) in enumerate(zip(expected, got, strict=True)):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"output {number} is {other.dtype} {list(other.shape)}, not {one.dtype} {list(one.shape)}"
    comparison = Comparison(goals)
    comparison.add(
        {str(number): one for number, one in enumerate(expected)}, {str(number): one for number, one in enumerate(got)}
    )
    return "; ".join(f"output {missed.output}: {missed.reason}" for missed in comparison.report().missed) or None
