"""Replace a Scan whose states are the latest elements of its inputs by windows of the whole sequences.

Preprocessors of sound are exported in this form: each iteration joins the state and new samples to a frame, and returns the frame's end as
the next state. This module does not import TVM.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes, value_shape

UNARY = ("Identity", "Cast")
"""Operators of a body that apply to all iterations at once."""


@dataclass(frozen=True)
class Delay:
    """A state that is the end of a frame, which is the state joined with an input of the iteration."""

    state: int
    sequence: int
    """Index among the scanned inputs."""
    frame: str
    axis: int
    length: int
    """Elements of the state along the axis."""
    stride: int
    """Elements of the input along the axis."""
    trailing: tuple[int, ...]
    """Extents behind the axis."""
    rank: int


def write_as_windows(node: onnx.NodeProto, build: Builder) -> bool:
    """Build nodes that replace a Scan; returns whether it has this form, else nothing is built."""
    values = attributes(node)
    body: onnx.GraphProto = values["body"]
    count = len(node.input) - values["num_scan_inputs"]
    if any(values.get("scan_input_directions") or ()) or any(values.get("scan_output_directions") or ()):
        return False
    delays = [_delay(node, body, state, build.graph) for state in range(count)]
    known = [delay for delay in delays if delay is not None]
    if len(known) < count or not known:
        return False
    frames = {delay.frame: delay for delay in known}
    sources = [_source(body, value.name, frames) for value in body.output[count:]]
    if any(source is None for source in sources):
        return False
    in_axes = values.get("scan_input_axes") or [0] * values["num_scan_inputs"]
    out_axes = values.get("scan_output_axes") or [0] * len(sources)
    joined = {delay.frame: _join(node, delay, count, in_axes[delay.sequence], build) for delay in known}
    for delay in known:
        if target := node.output[delay.state]:
            build.nodes.append(
                onnx.helper.make_node(
                    "Identity", [build.slice(joined[delay.frame], delay.axis, -delay.length, 1 << 62)], [target]
                )
            )
    windows = {frame: _windows(joined[frame], delay, build) for frame, delay in frames.items()}
    for target, source, axis in zip(node.output[count:], sources, out_axes, strict=True):
        if not target or source is None:
            continue
        frame, casts = source
        value = windows[frame]
        for dtype in casts:
            value = build.cast(value, dtype)
        build.nodes.append(onnx.helper.make_node("Identity", [_move_axis(value, frames[frame], axis, build)], [target]))
    return True


def _delay(node: onnx.NodeProto, body: onnx.GraphProto, state: int, graph: Graph) -> Delay | None:
    """The state as a delay; None if the body computes it otherwise, or if lengths are unknown."""
    producers = {output: inner for inner in body.node for output in inner.output}
    states = len(node.input) - attributes(node)["num_scan_inputs"]
    scanned = [value.name for value in body.input[states:]]
    cut = producers.get(body.output[state].name)
    frame = producers.get(cut.input[0]) if cut is not None and cut.op_type == "Slice" else None
    if cut is None or frame is None or frame.op_type != "Concat" or len(frame.input) != 2:
        return None
    if frame.input[0] != body.input[state].name or frame.input[1] not in scanned:
        return None
    sequence = scanned.index(frame.input[1])
    old = graph.shape(node.input[state]) or value_shape(body.input[state])
    new = _element_shape(node, body, states, sequence, graph)
    if old is None or new is None or len(old) != len(new):
        return None
    old = _known(old, value_shape(body.input[state]))
    rank, axis = len(old), attributes(frame)["axis"] % len(old)
    trailing = (*old[axis + 1 :], old[axis], new[axis])
    if not all(isinstance(extent, int) for extent in trailing):
        return None
    length, stride = int(old[axis] or 0), int(new[axis] or 0)
    if _slice_of(cut, body, graph, rank) != (axis, stride) or length < 1 or stride < 1:
        return None
    extents = tuple(int(extent) for extent in old[axis + 1 :] if isinstance(extent, int))
    return Delay(state, sequence, cut.input[0], axis, length, stride, extents, rank)


def _element_shape(
    node: onnx.NodeProto, body: onnx.GraphProto, states: int, sequence: int, graph: Graph
) -> Shape | None:
    """The shape of a scanned input in an iteration."""
    axis = (attributes(node).get("scan_input_axes") or [0] * (sequence + 1))[sequence]
    whole, declared = graph.shape(node.input[states + sequence]), value_shape(body.input[states + sequence])
    if whole is None:
        return declared
    axis %= len(whole)
    return _known((*whole[:axis], *whole[axis + 1 :]), declared)


def _known(shape: Shape, declared: Shape | None) -> Shape:
    """A shape with the declared extents where its own are unknown."""
    if declared is None or len(declared) != len(shape):
        return shape
    return tuple(
        extent if isinstance(extent, int) else other if isinstance(other, int) else extent
        for extent, other in zip(shape, declared, strict=True)
    )


def _slice_of(node: onnx.NodeProto, body: onnx.GraphProto, graph: Graph, rank: int) -> tuple[int, int] | None:
    """The axis and the first element of a slice to the end; None for other slices, or if they are not constant."""
    constants: Mapping[str, Any] = {**graph.constants, **{tensor.name: tensor for tensor in body.initializer}}
    constants = {
        **constants,
        **{
            inner.output[0]: attributes(inner)["value"]
            for inner in body.node
            if inner.op_type == "Constant" and "value" in attributes(inner)
        },
    }
    if len(node.input) < 4 or any(name not in constants for name in node.input[1:] if name):
        return None
    lists = [onnx.numpy_helper.to_array(constants[name]).reshape(-1).tolist() for name in node.input[1:] if name]
    starts, stops, axes, steps = (*lists, [1])[:4]
    if [len(values) for values in (starts, stops, axes, steps)] != [1, 1, 1, 1] or steps != [1]:
        return None
    return (axes[0] % rank, starts[0]) if stops[0] >= (1 << 31) - 1 and starts[0] > 0 else None


def _source(body: onnx.GraphProto, name: str, frames: Mapping[str, Delay]) -> tuple[str, list[int]] | None:
    """The frame that a result is, and the dtypes to which it is cast; None for other results."""
    producers = {output: inner for inner in body.node for output in inner.output}
    casts: list[int] = []
    while name not in frames:
        inner = producers.get(name)
        if inner is None or inner.op_type not in UNARY:
            return None
        if inner.op_type == "Cast":
            casts.insert(0, attributes(inner)["to"])
        name = inner.input[0]
    return name, casts


def _join(node: onnx.NodeProto, delay: Delay, states: int, axis: int, build: Builder) -> str:
    """The state before the first iteration, and all elements of the sequence behind it."""
    rank = delay.rank + 1
    order = [index for index in range(rank) if index != axis % rank]
    order.insert(delay.axis, axis % rank)
    sequence = node.input[states + delay.sequence]
    if order != list(range(rank)):
        sequence = build.transpose(sequence, order)
    elements = build.reshape(sequence, [*[0] * delay.axis, -1, *delay.trailing])
    return build.concat([node.input[delay.state], elements], delay.axis)


def _windows(joined: str, delay: Delay, build: Builder) -> str:
    """The frames of all iterations; iterations are the axis before the delay's."""
    total = build.slice(build.op("Shape", joined), 0, delay.axis, delay.axis + 1)
    elements = build.op("Sub", total, build.ints([delay.length]))
    count = build.squeeze(build.op("Div", elements, build.ints([delay.stride])), [0])
    first = build.op("Mul", build.op("Range", *_range(count, build)), build.const(delay.stride, np.int64))
    within = build.const(np.arange(delay.length + delay.stride)[None], np.int64)
    positions = build.op("Add", build.unsqueeze(first, [1]), within)
    return build.op("Gather", joined, positions, axis=delay.axis)


def _range(count: str, build: Builder) -> tuple[str, str, str]:
    return build.const(0, np.int64), count, build.const(1, np.int64)


def _move_axis(value: str, delay: Delay, target: int, build: Builder) -> str:
    """The value with the axis of iterations at another position."""
    rank = delay.rank + 1
    order = [index for index in range(rank) if index != delay.axis]
    order.insert(target % rank, delay.axis)
    return value if order == list(range(rank)) else build.transpose(value, order)
