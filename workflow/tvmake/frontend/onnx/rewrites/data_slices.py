"""Read slices whose start depends on the data, and whose length is known, as rows of a table.

Decoders read ``cache[offset : offset + 1]`` in this form. A slice whose length depends on the data is refused.
"""

from collections.abc import Mapping

import numpy as np
import onnx

from tvmake.frontend.onnx.graph import Builder, Graph, Rule, depends_on_data, optional_input

FORWARDING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that return the same number in another shape or type."""


def gather_rows(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace a slice of one axis from ``start`` to ``start + length`` by a Gather of ``length`` rows."""
    graph = build.graph
    starts, ends, axes, steps = (optional_input(node, index) for index in range(1, 5))
    if not ends or graph.shape(starts) != (1,) or not depends_on_data(starts, graph):
        return None
    axis = graph.constant(axes) if axes else np.zeros(1, np.int64)
    stride = graph.constant(steps) if steps else np.ones(1, np.int64)
    (first, before), (last, after) = (_split_sum(name, graph) for name in (starts, ends))
    length = after - before
    if axis is None or stride is None or stride.item() != 1 or first != last or length <= 0:
        return None
    rows = build.op("Add", build.cast(starts, onnx.TensorProto.INT64), build.ints(range(length)))
    return [build.op("Gather", node.input[0], rows, axis=int(axis.item()))]


def _split_sum(name: str, graph: Graph) -> tuple[str, int]:
    """A number as the name of another number, and the constant that is added to it."""
    producers: Mapping[str, onnx.NodeProto] = {output: node for node in graph.graph.node for output in node.output}
    total = 0
    while (node := producers.get(name)) is not None:
        if node.op_type in FORWARDING:
            name = node.input[0]
            continue
        constants = [graph.constant(operand) for operand in node.input]
        number = next((index for index, value in enumerate(constants) if _is_integer(value)), None)
        if number is None or node.op_type not in ("Add", "Sub") or (node.op_type == "Sub" and number == 0):
            break
        value = int(constants[number].item())  # type: ignore[union-attr]
        total += value if node.op_type == "Add" else -value
        name = node.input[1 - number]
    return name, total


def _is_integer(value: np.ndarray | None) -> bool:
    return value is not None and value.size == 1 and value.dtype.kind in "iu"


RULES: dict[str, Rule] = {"Slice": gather_rows}
