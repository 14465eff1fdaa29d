"""Values put where a mask holds (``x[mask] = value``), which exporters write as a list of places whose length depends on the data."""

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes
from tvmake.frontend.onnx.rewrites.fold import drop_unused

_SPREADS = {"Expand", "Reshape", "Identity", "Unsqueeze", "Squeeze"}


def choose_by_masks(graph: Graph) -> int:
    """Write values put where a mask holds as choices; returns how many. The shapes that depended on the data are then unused."""
    producers = {name: node for node in graph.graph.node for name in node.output}
    changed = 0
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"{node.op_type}_{index}")
        is_put = node.op_type == "ScatterND" and node.domain in ("", "ai.onnx")
        chosen = _choice(node, build, producers) if is_put else None
        if chosen is None:
            nodes.append(node)
            continue
        changed += 1
        nodes += [*build.nodes, helper.make_node("Identity", [chosen], list(node.output))]
    if changed:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
        drop_unused(graph)
        graph.refresh()
    return changed


def _choice(node: onnx.NodeProto, build: Builder, producers: dict[str, onnx.NodeProto]) -> str | None:
    """A choice between the data and one value, or one for each element behind the mask's axes; None for other places."""
    graph = build.graph
    data, places, updates = node.input
    mask = _mask(places, producers)
    value = _spread(updates, producers, graph)
    rank, rank_of_mask, shape = graph.rank(data), graph.rank(mask) if mask else None, graph.static_shape(value)
    if not mask or rank is None or rank_of_mask is None or shape is None:
        return None
    is_plain = attributes(node).get("reduction", "none") == "none" and graph.dtype(mask)
    if not is_plain or _is_part(graph.shape(mask) or (), graph.shape(data) or ()):
        return None
    behind = rank - rank_of_mask
    mask_extents, data_extents = list(shape[::-1]), list((graph.shape(data) or ())[::-1])
    if any(
        extent not in ((1, data_extents[place]) if place < behind else (1,))
        for place, extent in enumerate(mask_extents)
    ):
        return None
    if len(shape) > behind:
        value = build.reshape(value, shape[len(shape) - behind :])
    holds = build.cast(mask, onnx.TensorProto.BOOL)
    if behind:
        holds = build.unsqueeze(holds, list(range(rank_of_mask, rank)))
    return build.op("Where", holds, value, data)


def _is_part(mask: Shape, data: Shape) -> bool:
    """Whether a mask is certainly smaller than the data that it is for: a choice would spread it over all of it."""
    pairs = zip(mask, data, strict=False)
    return any(one != other and (one == 1 or (isinstance(one, int) and isinstance(other, int))) for one, other in pairs)


def _mask(places: str, producers: dict[str, onnx.NodeProto]) -> str:
    """What holds at these places, one a row; "" where they are no such list."""
    turned = producers.get(places)
    if turned is None or turned.op_type != "Transpose" or attributes(turned).get("perm", [1, 0]) != [1, 0]:
        return ""
    found = producers.get(turned.input[0])
    return found.input[0] if found is not None and found.op_type == "NonZero" else ""


def _spread(updates: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The value that is copied as often as there are places; the name given where it is none that is copied."""
    name = updates
    while graph.static_shape(name) is None and name in producers and producers[name].op_type in _SPREADS:
        name = producers[name].input[0]
    return name
