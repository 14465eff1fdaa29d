"""Replace ``auto_pad`` of poolings and convolutions by explicit padding.

Repair: `onnx-automatic-padding`.
"""

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Graph, attributes
from tvmake.frontend.onnx.rewrites.ceil_mode import POOLS

AUTOMATIC = ("SAME_LOWER", "SAME_UPPER")

REPLACED = ("auto_pad", "pads", "ceil_mode")


def write_out_padding(graph: Graph) -> int:
    """Give poolings the padding of ONNX Runtime, and convolutions with dynamic dimensions; returns the number of changes.

    With a dynamic dimension, windows that start at the same position for any size have padding at the end for the least favourable
    one. Other operators are unchanged.
    """
    changed = 0
    for node in graph.graph.node:
        if node.op_type not in (*POOLS, "Conv") or attributes(node).get("auto_pad") not in AUTOMATIC:
            continue
        pads = _padding(node, graph)
        if pads is None:
            continue
        remaining = [attribute for attribute in node.attribute if attribute.name not in REPLACED]
        del node.attribute[:]
        node.attribute.extend([*remaining, helper.make_attribute("pads", pads)])
        changed += 1
    if changed:
        graph.refresh()  # shape inference of earlier opsets also rounds SAME_LOWER down
    return changed


def _padding(node: onnx.NodeProto, graph: Graph) -> list[int] | None:
    """The padding before and behind each axis; None if it depends on a dynamic dimension, or if TVM's importer computes it."""
    shape, values = graph.shape(node.input[0]), attributes(node)
    if shape is None:
        return None
    extents = shape[2:]
    is_fixed = all(isinstance(extent, int) for extent in extents)
    sizes: list[int] = values.get("kernel_shape", [])
    if node.op_type == "Conv":
        weight = graph.shape(node.input[1])
        if is_fixed or weight is None or not all(isinstance(size, int) for size in weight[2:]):
            return None
        dilations = values.get("dilations", [1] * len(extents))
        sizes = [(int(size or 0) - 1) * dilation + 1 for size, dilation in zip(weight[2:], dilations, strict=True)]
    elif not is_fixed and any(dilation != 1 for dilation in values.get("dilations", ())):
        return None
    windows = zip(extents, sizes, values.get("strides", [1] * len(extents)), strict=True)
    is_lower = values["auto_pad"] == "SAME_LOWER"
    pairs = [_pair(extent, size, stride, is_lower=is_lower) for extent, size, stride in windows]
    known = [pair for pair in pairs if pair is not None]
    return [*(first for first, _ in known), *(last for _, last in known)] if len(known) == len(pairs) else None


def _pair(extent: int | str | None, size: int, stride: int, *, is_lower: bool) -> tuple[int, int] | None:
    """The padding before and behind an axis; None if the first depends on its dynamic extent."""
    if isinstance(extent, int):
        total = max((extent - 1) // stride * stride + size - extent, 0)
        less = total - total // 2 if is_lower else total // 2
        return less, total - less
    totals = [max(size - (rest or stride), 0) for rest in range(stride)]  # by the extent's remainder
    starts = {total - total // 2 if is_lower else total // 2 for total in totals}
    (first, *others) = starts
    return None if others else (first, size - 1 - first)
