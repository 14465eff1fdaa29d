"""Remove the last window of poolings with ``ceil_mode`` if it would cover only padding.

ONNX Runtime, the reference implementation, PyTorch, and ONNX since opset 22 omit this window. ONNX's shape inference counts it for
earlier opsets, so the following operators would be imported for a larger tensor. For LpPool, ``ceil_mode`` always becomes padding: TVM
divides its sums by the number of elements within the padding.
"""

from typing import Any

from onnx import helper

from tvmake.frontend.onnx.graph import Graph, attributes

POOLS = ("AveragePool", "LpPool", "MaxPool")


def round_down(graph: Graph) -> int:
    """Rewrite poolings so that no window covers only padding; returns the number of changes."""
    changed = 0
    for node in graph.graph.node:
        values = attributes(node)
        is_rounded_up = (
            node.op_type in POOLS and values.get("ceil_mode") and values.get("auto_pad", "NOTSET") == "NOTSET"
        )
        extents = fixed_extents(graph, node.input[0]) if is_rounded_up else None
        changes = _explicit_padding(node.op_type, values, extents) if extents is not None else None
        if changes is not None:
            remaining = [attribute for attribute in node.attribute if attribute.name not in changes]
            del node.attribute[:]
            added = (helper.make_attribute(name, value) for name, value in changes.items())
            node.attribute.extend([*remaining, *added])
            graph.refresh()  # the following shapes change
            changed += 1
    return changed


def fixed_extents(graph: Graph, name: str) -> tuple[int, ...] | None:
    """A tensor's dimensions after batch and channels; None if one of them is dynamic."""
    shape = graph.shape(name) or (None,)
    extents = tuple(extent for extent in shape[2:] if isinstance(extent, int))
    return extents if len(extents) == len(shape) - 2 else None


def _explicit_padding(kind: str, values: dict[str, Any], extents: tuple[int, ...]) -> dict[str, Any] | None:
    """Attributes with which no window covers only padding; None if no window does, or if no padding achieves it.

    Args:
        kind: the pooling's operator.
        values: its attributes.
        extents: of its input, without batch and channels.
    """
    rank = len(extents)
    ones = [1] * rank
    strides, dilations = values.get("strides", ones), values.get("dilations", ones)
    pads = list(values.get("pads", [0] * (2 * rank)))
    omitted, partial = {}, {}
    for axis, (extent, size) in enumerate(zip(extents, values["kernel_shape"], strict=True)):
        spare = extent + pads[axis] + pads[rank + axis] - (size - 1) * dilations[axis] - 1
        rest = spare % strides[axis]
        if rest and (spare // strides[axis] + 1) * strides[axis] >= extent + pads[axis]:
            omitted[axis] = rest
        elif rest:
            partial[axis] = strides[axis] - rest
    if not omitted and kind != "LpPool":
        return None
    if not values.get("count_include_pad"):
        for axis, cells in partial.items():
            pads[rank + axis] += cells
    elif partial:  # added padding would be counted: reduce the padding instead, and keep ceil_mode for the other axes
        for axis, cells in omitted.items():
            pads[rank + axis] -= cells
        return {"pads": pads} if min(pads) >= 0 else None
    return {"pads": pads, "ceil_mode": 0}
