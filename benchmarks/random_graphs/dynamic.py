"""Networks with dynamic dimensions: these dimensions, and the sizes at which a network runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import torch

from .drawing import drawn_once
from .network import Dimension, Kind, Network, Program
from .onnx_nodes import RuntimeRefusesError, model_of, run, session
from .reference import is_judgeable, outputs

ABOVE = 3
"""A bound less the size that a network is drawn with: positions have tables that much longer."""

OF_SINGLE = 3
"""The size that a network is drawn with instead of 1, which exporters treat as fixed."""

MOST_TRIED = 5
"""Dimensions of a network that are tried."""

REFUSALS = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    AssertionError,
    KeyError,
    AttributeError,
    NotImplementedError,
)
"""What torch and its exporter raise of a network that a size does not suit."""


def extents(network: Network) -> dict[str, int]:
    """The dynamic dimensions, with the sizes that the network is drawn with."""
    return {
        dimension.name: tensor.shape[dimension.axis] for tensor in network.inputs for dimension in tensor.dimensions
    }


def sizes(network: Network) -> list[dict[str, int]]:
    """What a network is run at: the smallest sizes, odd ones and the bounds; none where all dimensions are fixed."""
    drawn = extents(network)
    least = {dimension.name: dimension.least for tensor in network.inputs for dimension in tensor.dimensions}
    odd = {name: extent + 1 + extent % 2 for name, extent in drawn.items()}
    return [least, odd, {name: extent + ABOVE for name, extent in drawn.items()}] if drawn else []


def exported(network: Network, program: Program) -> Any:
    """A network as PyTorch exports it, with its dynamic dimensions."""
    bounds = extents(network)
    found = {
        dimension.name: torch.export.Dim(dimension.name, min=dimension.least, max=bounds[dimension.name] + ABOVE)
        for tensor in network.inputs
        for dimension in tensor.dimensions
    }
    shapes = [
        {dimension.axis: found[dimension.name] for dimension in tensor.dimensions} or None for tensor in network.inputs
    ]
    named = {f"x{number}": shape for number, shape in enumerate(shapes)} if found else None
    return torch.export.export(program, tuple(network.examples()), dynamic_shapes=named)


def suits_torch(network: Network, kinds: Mapping[str, Kind]) -> bool:
    """Whether PyTorch exports a network with its dynamic dimensions, and computes it at all sizes as it has exported it."""
    try:
        if not all(is_judgeable(network, kinds, "float32", size) for size in [None, *sizes(network)]):
            return False
        program = Program(network, kinds)
        return _has_shapes(exported(network, program), network, program)
    except (*REFUSALS, torch._dynamo.exc.UserError):
        return False


def _has_shapes(exported_program: Any, network: Network, program: Program) -> bool:
    """Whether results have the shapes that were exported, which takes dimensions to be 2 or more: then ``x[1:2]`` always has one row."""
    nodes = {node.name: node for node in exported_program.graph.nodes}
    values = [nodes[name].meta["val"] for name in exported_program.graph_signature.user_inputs]
    symbols = {
        dimension.name: value.shape[dimension.axis].node.expr
        for one, value in zip(network.inputs, values, strict=True)
        for dimension in one.dimensions
    }
    results = [nodes[name].meta["val"] for name in exported_program.graph_signature.user_outputs]
    for size in sizes(network):
        known = {symbols[name]: extent for name, extent in size.items()}
        for result, found in zip(results, outputs(program, network.examples(size)), strict=True):
            shape = [one if isinstance(one, int) else int(one.node.expr.subs(known)) for one in result.shape]
            if shape != list(found.shape):
                return False
    return True


UNSPECIFIED = ("Compress",)
"""Nodes whose constants ONNX does not define for sizes below those that they were drawn for."""


def suits_onnx(network: Network, kinds: Mapping[str, Kind]) -> bool:
    """Whether ONNX Runtime computes a network with its dynamic dimensions at all sizes, as its nodes alone do."""
    if any(step.kind in UNSPECIFIED for step in network.steps):
        return False
    try:
        if not all(is_judgeable(network, kinds, "float32", size) for size in [None, *sizes(network)]):
            return False
        program = Program(network, kinds)
        whole = session(model_of(network, program))
        names = [f"v{number}" for number in network.outputs]
        for size in sizes(network):
            feeds = {f"v{number}": value.numpy() for number, value in enumerate(network.examples(size))}
            run(whole, names, feeds)
            if not _has_room(network, program, size):
                return False
    except (*REFUSALS, RuntimeRefusesError):
        return False
    return True


def _has_room(network: Network, program: Program, size: Mapping[str, int]) -> bool:
    """Whether every kernel window fits into its padded operand: otherwise runtimes differ in their results."""
    values = program.values(network.examples(size))
    for step in network.steps:
        kernel = step.options.get("kernel_shape")
        if kernel is None or str(step.options.get("auto_pad", "")).startswith("SAME"):
            continue
        rank, extents = len(kernel), values[step.operands[0]].shape[2:]
        pads = step.options.get("pads") or [0] * 2 * rank
        dilations = step.options.get("dilations") or [1] * rank
        for axis in range(rank):
            padded = extents[axis] + pads[axis] + pads[axis + rank]
            if (kernel[axis] - 1) * dilations[axis] >= padded:
                return False
    return True


def drawn_dynamic(
    seed: int, kinds: Mapping[str, Kind], suits: Callable[[Network, Mapping[str, Kind]], bool]
) -> Network:
    """The network of a seed with one to three dynamic dimensions: the first of those drawn that a source has so."""
    for number in count():
        network = drawn_once(seed, number, kinds)
        if network is None:
            continue
        rng = Random(f"{seed} {number} dimensions")
        wanted = rng.choice((1, 2, 3))
        for axes in _candidate_axes(network, rng):
            name = f"d{len(extents(network))}"
            candidates = (_with_dimension(network, axes, name, least) for least in (1, 2))
            network = next((candidate for candidate in candidates if suits(candidate, kinds)), network)
            if len(extents(network)) == wanted:
                break
        if extents(network):
            return network
    raise AssertionError("counting ends")


def _candidate_axes(network: Network, rng: Random) -> list[frozenset[tuple[int, int]]]:
    """Axes of inputs that may be one dynamic dimension: those of one size in all inputs, before those of one input."""
    shared, alone = set(), set()
    for number, tensor in enumerate(network.inputs):
        for axis, extent in enumerate(tensor.shape):
            others = [
                index for index, sibling in enumerate(network.inputs) if sibling.shape[axis : axis + 1] == (extent,)
            ]
            shared.add(frozenset((other, axis) for other in others))
            alone.add(frozenset({(number, axis)}))
    groups = [sorted(map(sorted, group)) for group in (shared, alone - shared)]  # sets have no order
    for group in groups:
        rng.shuffle(group)
    return [frozenset(position) for group in groups for position in group][:MOST_TRIED]


def _with_dimension(network: Network, axes: frozenset[tuple[int, int]], name: str, least: int) -> Network:
    """A network with one more dynamic dimension; unchanged if one of the axes is dynamic already."""
    inputs = list(network.inputs)
    for number, axis in axes:
        tensor = inputs[number]
        if any(dimension.axis == axis for dimension in tensor.dimensions):
            return network
        size = tensor.shape[axis] if tensor.shape[axis] > 1 else OF_SINGLE
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        inputs[number] = replace(tensor, shape=shape, dimensions=(*tensor.dimensions, Dimension(axis, name, least)))
    return replace(network, inputs=tuple(inputs))
