"""Replace ``auto_pad`` of poolings by explicit padding.

Repair: `onnx-automatic-padding`.
"""

from onnx import helper

from tvmake.frontend.onnx.graph import Graph, attributes
from tvmake.frontend.onnx.rewrites.ceil_mode import POOLS, fixed_extents

AUTOMATIC = ("SAME_LOWER", "SAME_UPPER")

REPLACED = ("auto_pad", "pads", "ceil_mode")


def write_out_padding(graph: Graph) -> int:
    """Give poolings of fixed dimensions the padding of ONNX Runtime; returns the number of changes."""
    changed = 0
    for node in graph.graph.node:
        values = attributes(node)
        is_automatic = node.op_type in POOLS and values.get("auto_pad") in AUTOMATIC
        extents = fixed_extents(graph, node.input[0]) if is_automatic else None
        if extents is None:
            continue
        windows = zip(extents, values["kernel_shape"], values.get("strides", [1] * len(extents)), strict=True)
        totals = [max((extent - 1) // stride * stride + size - extent, 0) for extent, size, stride in windows]
        less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = [*more, *less] if values["auto_pad"] == "SAME_LOWER" else [*less, *more]
        remaining = [attribute for attribute in node.attribute if attribute.name not in REPLACED]
        del node.attribute[:]
        node.attribute.extend([*remaining, helper.make_attribute("pads", pads)])
        changed += 1
    if changed:
        graph.refresh()  # shape inference of earlier opsets also rounds SAME_LOWER down
    return changed
