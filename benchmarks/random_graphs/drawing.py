"""Networks from seeds."""

from collections.abc import Mapping
from random import Random

import torch
from torch import Tensor

from . import images, numbers, rarer, sequences, shapes, types
from .network import Input, Kind, Network, Step, made
from .reference import is_judgeable
from .shapes import MOST_ELEMENTS

KINDS: dict[str, Kind] = {
    **images.KINDS,
    **sequences.KINDS,
    **shapes.KINDS,
    **numbers.KINDS,
    **types.KINDS,
    **rarer.KINDS,
}
"""All kinds of steps of PyTorch, by name."""

AFTER = (
    (
        "batch_norm",
        "relu",
        "relu",
        "relu6",
        "silu",
        "hardswish",
        "prelu",
        "gelu",
        "add",
        "add",
        "squeeze_and_excite",
        "cat",
    ),
    ("norm", "Relu", "Relu", "Clip", "bias", "chain", "Concat"),
)
"""What often follows a convolution, in PyTorch and in ONNX."""

BLOCKS = ("conv2d", "depthwise", "batch_norm", "Conv", "norm")
"""What is often followed by that."""

STEPS = (2, 3, 4, 5, 6, 7, 8, 10, 12)
TRIES = 60
MOST_OUTPUTS = 3

EXTENTS = (1, 4, 5, 6, 7, 8, 8, 9, 11, 12, 16)
BATCHES = (1, 1, 1, 1, 2, 3)


def drawn(seed: int, kinds: Mapping[str, Kind]) -> Network:
    """The network of a seed: the first of those drawn from it whose outputs rounding does not decide."""
    number = 0
    while True:
        network = drawn_once(seed, number, kinds)
        if network is not None and is_judgeable(network, kinds, "float32"):
            return network
        number += 1


def drawn_once(seed: int, number: int, kinds: Mapping[str, Kind]) -> Network | None:
    """One of the networks that are drawn from a seed; None where nothing came of it."""
    return _drawn(Random(f"{seed} {number}"), kinds)


def _drawn(rng: Random, kinds: Mapping[str, Kind]) -> Network | None:
    style = rng.choice((_picture, _picture, _picture, _sequence, _sequence, _words, _signal, _table, _volume))
    inputs = style(rng)
    seed = rng.randrange(10**6)
    empty = Network(tuple(inputs), (), (), seed)
    values = empty.examples()
    steps: list[Step] = []
    count = rng.choice(STEPS)
    for _ in range(TRIES):
        if len(steps) == count:
            break
        if step := _step(rng, kinds, values, bool(steps) and steps[-1].kind in BLOCKS):
            try:
                value = _value(step, kinds, values)
            except (RuntimeError, ValueError, IndexError, TypeError):
                continue  # torch refuses the combination
            if _is_sound(value):
                steps.append(step)
                values.append(value)
    if not steps:
        return None
    read = {operand for step in steps for operand in step.operands}
    ends = [number for number in range(len(inputs), len(values)) if number not in read]
    outputs = ends[-MOST_OUTPUTS:]
    if rng.random() < 0.15 and (inner := [number for number in range(len(inputs), len(values)) if number in read]):
        outputs = [rng.choice(inner), *outputs[-MOST_OUTPUTS + 1 :]]
    return without_unread(Network(tuple(inputs), tuple(steps), tuple(outputs), seed))


def without_unread(network: Network) -> Network:
    """The network without steps and inputs that its outputs do not depend on; one input stays."""
    first = len(network.inputs)
    needed = set(network.outputs)
    for number, step in reversed(list(enumerate(network.steps, first))):
        if number in needed:
            needed |= set(step.operands)
    kept = [number for number in range(first + len(network.steps)) if number in needed]
    if not kept or kept[0] >= first:
        kept = [0, *kept]
    positions = {number: index for index, number in enumerate(kept)}
    return Network(
        tuple(network.inputs[number] for number in kept if number < first),
        tuple(
            Step(step.kind, tuple(positions[operand] for operand in step.operands), step.options, step.seed)
            for step in (network.steps[number - first] for number in kept if number >= first)
        ),
        tuple(positions[number] for number in network.outputs),
        network.seed,
    )


def _picture(rng: Random) -> list[Input]:
    batch = rng.choice(BATCHES)
    shape = (batch, rng.choice((1, 3, 3, 4, 5, 8)), rng.choice(EXTENTS), rng.choice(EXTENTS))
    second = rng.random()
    if second < 0.1:
        return [Input(shape), Input(shape)]
    return [Input(shape), Input((batch, rng.choice((3, 8))))] if second < 0.2 else [Input(shape)]


def _sequence(rng: Random) -> list[Input]:
    batch = rng.choice(BATCHES)
    positions, features = rng.choice((1, 4, 5, 7, 10)), rng.choice((4, 6, 8, 8, 12, 16))
    first = Input((batch, positions, features))
    second = rng.random()
    if second < 0.2:
        return [first, Input((batch, rng.choice((3, 6)), rng.choice((4, 8))))]
    return [first, Input((batch, positions, 1), "bool")] if second < 0.3 else [first]


def _words(rng: Random) -> list[Input]:
    shape = (rng.choice(BATCHES), rng.choice((1, 4, 6, 9)))
    words = Input(shape, "int64", rng.choice((10, 50)))
    return [words, Input((*shape, rng.choice((1, 8))))] if rng.random() < 0.3 else [words]


def _signal(rng: Random) -> list[Input]:
    return [Input((rng.choice(BATCHES), rng.choice((1, 2, 4, 6)), rng.choice((8, 15, 20, 32))))]


def _table(rng: Random) -> list[Input]:
    rows = rng.choice((1, 2, 5))
    first = Input((rows, rng.choice((3, 7, 8, 16))))
    return [first, Input((rows, rng.choice((1, 4))))] if rng.random() < 0.4 else [first]


def _volume(rng: Random) -> list[Input]:
    return [Input((rng.choice((1, 1, 2)), rng.choice((1, 2, 4)), *(rng.choice((3, 4, 6)) for _ in range(3))))]


def _step(rng: Random, kinds: Mapping[str, Kind], values: list[Tensor], continues: bool) -> Step | None:
    """A step on the latest value most of the time, else on any.

    Args:
        continues: whether the latest value is in the middle of a block, as networks are made of.
    """
    first = len(values) - 1 if rng.random() < 0.75 else rng.randrange(len(values))
    names = list(kinds)
    name = rng.choices(names, [kinds[name].weight for name in names])[0]
    if continues and rng.random() < 0.4:
        name = rng.choice(next(common for common in AFTER if common[0] in kinds))
    kind, x = kinds[name], values[first]
    options = kind.draw(rng, x)
    if options is None:
        return None
    operands = [first]
    if kind.partner is not None:
        others = [number for number, value in enumerate(values) if kind.partner(x, value)]
        if not others:
            return None
        operands += [rng.choice(others) for _ in range(rng.randint(1, kind.partners))]
    return Step(name, tuple(operands), options, rng.randrange(10**6))


def _value(step: Step, kinds: Mapping[str, Kind], values: list[Tensor]) -> Tensor:
    operands = [values[number] for number in step.operands]
    with torch.no_grad():
        return made(kinds[step.kind], step, operands)(*operands)


def _is_sound(value: Tensor) -> bool:
    """Whether a value has a usual size and magnitude."""
    if not 0 < value.numel() <= MOST_ELEMENTS or value.dim() > 6:
        return False
    if value.dtype != torch.float32:
        return value.dtype in (torch.int64, torch.bool)
    rms = value.square().mean().sqrt().item()
    return bool(value.isfinite().all()) and 1e-3 < rms < 1e3 and value.abs().max().item() < 1e4
