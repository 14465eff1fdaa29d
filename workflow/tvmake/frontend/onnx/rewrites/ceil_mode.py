"""Poolings with ``ceil_mode`` whose last window would be in the padding alone.

There is no such window: ONNX Runtime, the reference implementation and PyTorch leave it out, and so does the standard since
opset 22. ONNX's shape inference counts it for models of earlier opsets, and what follows would be imported for a larger tensor.
Of LpPool every such window is written as padding: TVM divides its sums by what lies within the padding.
"""

from typing import Any

from onnx import helper

from tvmake.frontend.onnx.graph import Graph, attributes

POOLS = ("AveragePool", "LpPool", "MaxPool")


def round_down(graph: Graph) -> int:
    """Let poolings have no window in the padding alone, with the same result; returns how many changed."""
    changed = 0
    for node in graph.graph.node:
        values = attributes(node)
        is_rounded_up = (
            node.op_type in POOLS and values.get("ceil_mode") and values.get("auto_pad", "NOTSET") == "NOTSET"
        )
        extents = fixed_extents(graph, node.input[0]) if is_rounded_up else None
        written = _written_out(node.op_type, values, extents) if extents is not None else None
        if written is not None:
            kept = [attribute for attribute in node.attribute if attribute.name not in written]
            del node.attribute[:]
            node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in written.items())])
            graph.refresh()  # the shapes of all that follows
            changed += 1
    return changed


def fixed_extents(graph: Graph, name: str) -> tuple[int, ...] | None:
    """A tensor's dimensions behind batch and channels; None if one of them is dynamic."""
    shape = graph.shape(name) or (None,)
    extents = tuple(extent for extent in shape[2:] if isinstance(extent, int))
    return extents if len(extents) == len(shape) - 2 else None


def _written_out(kind: str, values: dict[str, Any], extents: tuple[int, ...]) -> dict[str, Any] | None:
    """Padding and rounding that leave no window to be left out; None where there is none, or no such padding.

    Args:
        kind: the pooling's operator.
        values: its attributes.
        extents: of its input, without batch and channels.
    """
    rank = len(extents)
    ones = [1] * rank
    strides, dilations = values.get("strides", ones), values.get("dilations", ones)
    pads = list(values.get("pads", [0] * (2 * rank)))
    left_out, further = {}, {}
    for axis, (extent, size) in enumerate(zip(extents, values["kernel_shape"], strict=True)):
        spare = extent + pads[axis] + pads[rank + axis] - (size - 1) * dilations[axis] - 1
        rest = spare % strides[axis]
        if rest and (spare // strides[axis] + 1) * strides[axis] >= extent + pads[axis]:
            left_out[axis] = rest
        elif rest:
            further[axis] = strides[axis] - rest
    if not left_out and kind != "LpPool":
        return None
    if not values.get("count_include_pad"):
        for axis, cells in further.items():
            pads[rank + axis] += cells
    elif further:  # more padding would count: less of it, where that is enough, leaves the others rounded up
        for axis, cells in left_out.items():
            pads[rank + axis] -= cells
        return {"pads": pads} if min(pads) >= 0 else None
    return {"pads": pads, "ceil_mode": 0}
