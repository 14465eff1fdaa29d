"""Masked assignments (``x[mask] = value``), which exporters write as a list of indices whose length depends on the data."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes, optional_input
from tvmake.frontend.onnx.rewrites.fold import drop_unused

_SPREADS = {"Expand", "Reshape", "Identity", "Unsqueeze", "Squeeze"}

_ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Floor", "Ceil",
    "Round", "Sign", "Relu", "LeakyRelu", "Elu", "Selu", "Gelu", "Sigmoid", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Tanh", "Clip", "Cast",
}  # fmt: skip
_RANDOM = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
}


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
    """A choice between the data and one value, or one for each element behind the mask's axes, or what the same mask selects elsewhere.

    None for other places.
    """
    graph = build.graph
    data, places, updates = node.input
    mask = _mask(places, producers, graph)
    rank, rank_of_mask = graph.rank(data), graph.rank(mask) if mask else None
    if rank is None or rank_of_mask is None:
        return None
    behind = rank - rank_of_mask
    whole = _whole(updates, mask, behind, build, producers)
    is_plain = attributes(node).get("reduction", "none") == "none" and graph.dtype(mask)
    if not is_plain or _is_part(graph.shape(mask) or (), graph.shape(data) or ()):
        return None
    if whole:
        return _where(build, mask, behind, whole, data) if graph.shape(whole) == graph.shape(data) else None
    value = _spread(updates, producers, graph)
    shape = graph.static_shape(value)
    if shape is None:
        return None
    mask_extents, data_extents = list(shape[::-1]), list((graph.shape(data) or ())[::-1])
    if any(
        extent not in ((1, data_extents[place]) if place < behind else (1,))
        for place, extent in enumerate(mask_extents)
    ):
        return None
    if len(shape) > behind:
        value = build.reshape(value, shape[len(shape) - behind :])
    return _where(build, mask, behind, value, data)


def _where(build: Builder, mask: str, behind: int, value: str, data: str) -> str:
    holds = build.cast(mask, onnx.TensorProto.BOOL)
    if behind:
        rank = build.graph.rank(mask) or 0
        holds = build.unsqueeze(holds, list(range(rank, rank + behind)))
    return build.op("Where", holds, value, data)


def _whole(name: str, mask: str, behind: int, build: Builder, producers: dict[str, onnx.NodeProto]) -> str:
    """A tensor of which the mask selects these values, computed for all its elements where they are; "" where there is none."""
    node, graph = producers.get(name), build.graph
    if node is None:
        return ""
    if node.op_type == "GatherND" and not attributes(node).get("batch_dims", 0):
        selecting = _mask(node.input[1], producers, graph)
        return node.input[0] if selecting and _is_same(selecting, mask, producers, graph) else ""
    if node.op_type in _SPREADS or (node.op_type == "Slice" and _is_from_first_on(node, producers, graph)):
        # As many as there are places; but for parts of their rows.
        rows, before = (list(graph.shape(one) or ())[1:] for one in (name, node.input[0]))
        pairs = zip(rows, before, strict=False)
        is_part = any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs)
        return "" if is_part else _whole(node.input[0], mask, behind, build, producers)
    is_product = node.op_type == "MatMul" and behind == 1 and graph.rank(node.input[1]) == 2
    is_product |= node.op_type == "Gemm" and behind == 1 and not attributes(node).get("transA", 0)
    if not is_product and node.op_type not in _ELEMENTWISE:
        return ""
    inputs = list(node.input)
    for at, one in enumerate(inputs):
        rank = graph.rank(one) if one else 0
        if (
            (at and is_product)
            or (rank is not None and rank <= behind and _is_constant(one, producers, graph))
            or not one
        ):
            continue
        inputs[at] = _whole(one, mask, behind, build, producers)
        if not inputs[at]:
            return ""
    of = next(graph.shape(one) for one, was in zip(inputs, node.input, strict=True) if one != was)
    result = graph.shape(name) if is_product else of
    if of is None or not result:
        return ""
    made = _product(node, inputs, build) if is_product else build.op(node.op_type, *inputs, **attributes(node))
    if made:
        graph.shapes[made] = (*of[:-1], result[-1])
    return made


def _product(node: onnx.NodeProto, inputs: list[str], build: Builder) -> str:
    """Of rows with any axes before them, which Gemm does not take; "" where it scales."""
    values = attributes(node)
    if {values.get("alpha", 1.0), values.get("beta", 1.0)} != {1.0}:
        return ""
    matrix = build.transpose(inputs[1], [1, 0]) if values.get("transB", 0) else inputs[1]
    made = build.op("MatMul", inputs[0], matrix)
    return build.op("Add", made, inputs[2]) if len(inputs) > 2 and inputs[2] else made


def _is_from_first_on(node: onnx.NodeProto, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    start, step = (_constant(optional_input(node, at), producers, graph) for at in (1, 4))
    is_forward = len(node.input) < 5 or (step is not None and not (step != 1).any())
    return start is not None and not start.any() and is_forward


def _is_constant(name: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    return graph.is_constant(name) or (name in producers and producers[name].op_type == "Constant")


def _constant(name: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> np.ndarray | None:
    """The value of a small constant; before nodes are folded, it may be one's."""
    node = producers.get(name)
    if node is not None and node.op_type == "Constant" and "value" in (given := attributes(node)):
        return numpy_helper.to_array(given["value"])
    return graph.constant(name)


def _is_same(one: str, other: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    """Whether two names hold what is computed in the same way."""
    if one == other:
        return True
    value, same = _constant(one, producers, graph), _constant(other, producers, graph)
    if value is not None and same is not None:
        return value.dtype == same.dtype and np.array_equal(value, same)
    nodes = producers.get(one), producers.get(other)
    if nodes[0] is None or nodes[1] is None or nodes[0].op_type in _RANDOM:
        return False
    is_alike = nodes[0].op_type == nodes[1].op_type and len(nodes[0].input) == len(nodes[1].input)
    places = [list(node.output).index(name) for node, name in zip(nodes, (one, other), strict=True) if node is not None]
    return (
        is_alike
        and places[0] == places[1]
        and list(nodes[0].attribute) == list(nodes[1].attribute)
        and all(_is_same(*pair, producers, graph) for pair in zip(nodes[0].input, nodes[1].input, strict=True))
    )


def _is_part(mask: Shape, data: Shape) -> bool:
    """Whether a mask is certainly smaller than the data that it is for: a choice would spread it over all of it."""
    pairs = zip(mask, data, strict=False)
    return any(one != other and (one == 1 or (isinstance(one, int) and isinstance(other, int))) for one, other in pairs)


def _mask(places: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """What holds at these places, one a row; "" where they are no such list."""
    turned, is_list = producers.get(places), graph.rank(places) == 2
    is_written_again = False
    while turned is not None and is_list and turned.op_type in _SPREADS:
        turned, is_written_again = producers.get(turned.input[0]), True
    if turned is None or turned.op_type != "Transpose" or attributes(turned).get("perm", [1, 0]) != [1, 0]:
        return ""
    found = producers.get(turned.input[0])
    if found is None or found.op_type != "NonZero":
        return ""
    if is_written_again and graph.rank(found.input[0]) != 1:
        return ""
    return _narrowest(found.input[0], producers, graph)


def _narrowest(mask: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The mask before it was spread over the axes behind its own."""
    spread = producers.get(mask)
    shape = graph.shape(mask)
    if spread is None or spread.op_type != "Expand" or shape is None:
        return mask
    before = spread.input[0]
    if graph.shape(before) == shape:
        return before
    wider = producers.get(before)
    narrow = graph.shape(wider.input[0]) if wider is not None and wider.op_type == "Unsqueeze" else None
    is_leading = narrow is not None and narrow == shape[: len(narrow)] == (graph.shape(before) or ())[: len(narrow)]
    return wider.input[0] if wider is not None and is_leading else mask


def _spread(updates: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The value that is copied as often as there are places; the name given where it is none that is copied."""
    name = updates
    while graph.static_shape(name) is None and name in producers and producers[name].op_type in _SPREADS:
        name = producers[name].input[0]
    return name
