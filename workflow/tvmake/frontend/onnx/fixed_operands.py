"""Operands that must be constants, and the remedy if inputs give them. This module does not import TVM."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import onnx

from tvmake.frontend.onnx.graph import all_nodes, optional_input, sources, value_shape
from tvmake.frontend.onnx.rewrites.declared_shapes import REDUCTIONS

OPERANDS: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(sorted(REDUCTIONS), (1,)),
    "Col2Im": (1, 2),
    "CumSum": (1,),
    "DFT": (1, 2),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (3,),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "Slice": (3, 4),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
}
"""By operator, the operands without which its result has no known shape: axes, sizes and lengths."""

MOST_ELEMENTS = 16
"""Elements of the largest input that is taken for such an operand."""


def value_remedy(graph: onnx.GraphProto) -> str | None:
    """The remedy for operators whose axes or sizes are inputs: fix these to values; None if there are no such inputs."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name for value in graph.input if value.name not in constants and _is_small(value)}
    names = dict.fromkeys(name for operand in _operands(graph) for name in sources(operand, graph) if name in inputs)
    if not names:
        return None
    values = ", ".join(f"{name}: {{value: VALUE}}" for name in names)
    return f"Fix the inputs that give axes or sizes, if they are always the same: `inputs: {{{values}}}`."


def _operands(graph: onnx.GraphProto) -> Iterator[str]:
    for node in all_nodes(graph):
        yield from filter(None, (optional_input(node, index) for index in OPERANDS.get(node.op_type, ())))


def _is_small(value: onnx.ValueInfoProto) -> bool:
    sizes = value_shape(value)
    return sizes is not None and prod(size if isinstance(size, int) else 1 for size in sizes) <= MOST_ELEMENTS
