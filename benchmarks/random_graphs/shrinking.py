"""Smaller networks with the same defect."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from .drawing import without_unread
from .network import Input, Kind, Network, Program, Step
from .reference import is_judgeable

Check = Callable[[Network], bool]


def shrunk(network: Network, kinds: Mapping[str, Kind], shows: Check) -> Network:
    """A network of as few steps, and with as small inputs, as still show a defect.

    Args:
        shows: whether a network has the defect.
    """
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(network, kinds):
            if candidate == network:
                continue
            try:
                is_sound = is_judgeable(candidate, kinds, "float32")
            except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
                continue  # torch refuses it
            if is_sound and shows(candidate):
                network, is_smaller = candidate, True
                break
    return network


def _candidates(network: Network, kinds: Mapping[str, Kind]) -> Iterator[Network]:
    first = len(network.inputs)
    last = first + len(network.steps)
    if len(network.outputs) > 1:
        for number in network.outputs:
            yield without_unread(replace(network, outputs=(number,)))
    # Whatever is in the middle as the output.
    for number in range(first, last):
        if network.outputs != (number,) and number < max(network.outputs):
            yield without_unread(replace(network, outputs=(number,)))
    # A step left out, the users of its value reading an operand instead; or an input instead of it.
    for number, step in enumerate(network.steps, first):
        for operand in dict.fromkeys(step.operands):
            yield _without(network, number, operand)
    yield from _with_input_for_a_step(network, kinds)
    for index, tensor in enumerate(network.inputs):
        for axis, extent in enumerate(tensor.shape):
            for smaller in {1, 2, 4, extent // 2, extent - 1}:
                if 0 < smaller < extent:
                    shape = (*tensor.shape[:axis], smaller, *tensor.shape[axis + 1 :])
                    inputs = list(network.inputs)
                    inputs[index] = replace(tensor, shape=shape)
                    yield replace(network, inputs=tuple(inputs))
    for number, step in enumerate(network.steps):
        for name, value in step.options.items():
            if simpler := _simpler(name, value):
                steps = list(network.steps)
                steps[number] = replace(step, options={**step.options, **simpler})
                yield replace(network, steps=tuple(steps))


SIMPLE = {
    "bias": False,
    "groups": 1,
    "dilation": 1,
    "padding": 0,
    "stride": 1,
    "affine": False,
    "padding_mode": "zeros",
    "kernel_size": 1,
}


def _simpler(name: str, value: object) -> dict[str, object] | None:
    if name in SIMPLE and value != SIMPLE[name]:
        return {name: SIMPLE[name]}
    return None


def _without(network: Network, number: int, operand: int) -> Network:
    """The network whose users of one value take another one, from before it."""
    first = len(network.inputs)

    def other(read: int) -> int:
        return operand if read == number else read

    steps = tuple(
        step if index <= number else replace(step, operands=tuple(map(other, step.operands)))
        for index, step in enumerate(network.steps, first)
    )
    outputs = tuple(dict.fromkeys(map(other, network.outputs)))
    outputs = tuple(read for read in outputs if read >= first) or (number,)
    return without_unread(replace(network, steps=steps, outputs=outputs))


def _with_input_for_a_step(network: Network, kinds: Mapping[str, Kind]) -> Iterator[Network]:
    """Networks with the value of a step as an input, if its shape is known from a run."""
    try:
        values = Program(network, kinds).values(network.examples())
    except (RuntimeError, KeyError):
        return
    first = len(network.inputs)
    for number in range(len(values) - 2, first - 1, -1):
        value = values[number]
        dtype = str(value.dtype).removeprefix("torch.")
        below = max(1, int(value.max()) + 1) if dtype == "int64" and value.min() >= 0 else 1
        if number in network.outputs or (dtype == "int64" and below == 1):
            continue
        added = Input(tuple(value.shape), dtype, below)

        def renumbered(read: int, number: int = number) -> int:
            if read == number:
                return first
            return read if read < first else read + 1

        steps = tuple(
            Step(step.kind, tuple(map(renumbered, step.operands)), step.options, step.seed) for step in network.steps
        )
        made = replace(
            network, inputs=(*network.inputs, added), steps=steps, outputs=tuple(map(renumbered, network.outputs))
        )
        yield without_unread(made)
