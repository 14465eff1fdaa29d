"""Poolings that round their extents up, where the last window would lie in the padding alone.

There is no such window: ONNX Runtime, the reference implementation and PyTorch leave it out, and so does the standard since
opset 22. ONNX's shape inference counts it for models of earlier opsets, and what follows would be imported for a larger tensor.
"""

from typing import Any

from onnx import helper

from tvmake.frontend.onnx.graph import Graph, attributes

POOLS = ("AveragePool", "LpPool", "MaxPool")


def round_down(graph: Graph) -> int:
    """Let poolings round down where their last window is left out, with the same result; returns how many changed."""
    changed = 0
    for node in graph.graph.node:
        values = attributes(node)
        shape = graph.static_shape(node.input[0]) if node.op_type in POOLS and values.get("ceil_mode") else None
        pads = _pads_that_round_down(values, shape[2:]) if shape is not None else None
        if pads is not None:
            kept = [attribute for attribute in node.attribute if attribute.name not in ("ceil_mode", "pads")]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
            graph.refresh()  # the shapes of all that follows
            changed += 1
    return changed


def _pads_that_round_down(values: dict[str, Any], extents: tuple[int, ...]) -> list[int] | None:
    """Padding with which a pooling gives the same rounded down; None where no window is left out, or there is no such padding.

    Args:
        values: the pooling's attributes.
        extents: of its input, without batch and channels.
    """
    rank = len(extents)
    ones = [1] * rank
    strides, dilations = values.get("strides", ones), values.get("dilations", ones)
    pads = list(values.get("pads", [0] * (2 * rank)))
    is_left_out = False
    for axis, (extent, size) in enumerate(zip(extents, values["kernel_shape"], strict=True)):
        window = (size - 1) * dilations[axis] + 1
        rest = (extent + pads[axis] + pads[rank + axis] - window) % strides[axis]
        windows = -(-(extent + pads[axis] + pads[rank + axis] - window) // strides[axis]) + 1
        if not rest:
            continue
        if (windows - 1) * strides[axis] >= extent + pads[axis]:
            is_left_out = True
        elif values.get("count_include_pad"):
            return None  # more padding would count
        else:
            pads[rank + axis] += strides[axis] - rest
    return pads if is_left_out else None
