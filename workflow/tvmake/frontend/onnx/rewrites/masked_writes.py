"""Rewrite masked assignments (``x[mask] = value``) to ``Where``; exporters write them with a list of indices of dynamic length."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes, optional_input
from tvmake.frontend.onnx.rewrites.fold import drop_unused

_RESHAPING = {"Expand", "Reshape", "Identity", "Unsqueeze", "Squeeze"}

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
    """Replace masked assignments by ``Where``, so that no shape depends on the data; returns the number of replacements."""
    producers = {name: node for node in graph.graph.node for name in node.output}
    changed = 0
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"{node.op_type}_{index}")
        is_scatter = node.op_type == "ScatterND" and node.domain in ("", "ai.onnx")
        choice = _choice(node, build, producers) if is_scatter else None
        if choice is None:
            nodes.append(node)
            continue
        changed += 1
        nodes += [*build.nodes, helper.make_node("Identity", [choice], list(node.output))]
    if changed:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
        drop_unused(graph)
        graph.refresh()
    return changed


def _choice(node: onnx.NodeProto, build: Builder, producers: dict[str, onnx.NodeProto]) -> str | None:
    """A ``Where`` between the data and the assigned values; None if the indices are not those of a mask, or for other values.

    The values may be one value, one for each element of the axes after the mask's, or a selection of another tensor by the same mask.
    """
    graph = build.graph
    data, indices, updates = node.input
    mask = _mask(indices, producers, graph)
    rank, rank_of_mask = graph.rank(data), graph.rank(mask) if mask else None
    if rank is None or rank_of_mask is None:
        return None
    trailing = rank - rank_of_mask
    whole = _tensor_before_mask(updates, mask, trailing, build, producers)
    is_plain = attributes(node).get("reduction", "none") == "none" and graph.dtype(mask)
    if not is_plain or _is_part(graph.shape(mask) or (), graph.shape(data) or ()):
        return None
    if whole:
        return _where(build, mask, trailing, whole, data) if graph.shape(whole) == graph.shape(data) else None
    value = _broadcast_source(updates, producers, graph)
    shape = graph.static_shape(value)
    if shape is None:
        return None
    mask_extents, data_extents = list(shape[::-1]), list((graph.shape(data) or ())[::-1])
    if any(
        extent not in ((1, data_extents[offset]) if offset < trailing else (1,))
        for offset, extent in enumerate(mask_extents)
    ):
        return None
    if len(shape) > trailing:
        value = build.reshape(value, shape[len(shape) - trailing :])
    return _where(build, mask, trailing, value, data)


def _where(build: Builder, mask: str, trailing: int, value: str, data: str) -> str:
    condition = build.cast(mask, onnx.TensorProto.BOOL)
    if trailing:
        rank = build.graph.rank(mask) or 0
        condition = build.unsqueeze(condition, list(range(rank, rank + trailing)))
    return build.op("Where", condition, value, data)


def _tensor_before_mask(
    name: str, mask: str, trailing: int, build: Builder, producers: dict[str, onnx.NodeProto]
) -> str:
    """The tensor from which the mask selects these values, with later operators applied to all its elements; "" if there is none."""
    node, graph = producers.get(name), build.graph
    if node is None:
        return ""
    if node.op_type == "GatherND" and not attributes(node).get("batch_dims", 0):
        selecting = _mask(node.input[1], producers, graph)
        return node.input[0] if selecting and _is_same(selecting, mask, producers, graph) else ""
    if node.op_type in _RESHAPING or (node.op_type == "Slice" and _is_from_first_on(node, producers, graph)):
        # The number of rows is that of the indices; refuse parts of rows.
        rows, before = (list(graph.shape(value) or ())[1:] for value in (name, node.input[0]))
        pairs = zip(rows, before, strict=False)
        is_part = any(isinstance(new, int) and isinstance(old, int) and new != old for new, old in pairs)
        return "" if is_part else _tensor_before_mask(node.input[0], mask, trailing, build, producers)
    is_matmul = node.op_type == "MatMul" and trailing == 1 and graph.rank(node.input[1]) == 2
    is_matmul |= node.op_type == "Gemm" and trailing == 1 and not attributes(node).get("transA", 0)
    if not is_matmul and node.op_type not in _ELEMENTWISE:
        return ""
    inputs = list(node.input)
    for index, operand in enumerate(inputs):
        rank = graph.rank(operand) if operand else 0
        if (
            (index and is_matmul)
            or (rank is not None and rank <= trailing and _is_constant(operand, producers, graph))
            or not operand
        ):
            continue
        inputs[index] = _tensor_before_mask(operand, mask, trailing, build, producers)
        if not inputs[index]:
            return ""
    shape = next(graph.shape(new) for new, old in zip(inputs, node.input, strict=True) if new != old)
    result_shape = graph.shape(name) if is_matmul else shape
    if shape is None or not result_shape:
        return ""
    result = _matmul(node, inputs, build) if is_matmul else build.op(node.op_type, *inputs, **attributes(node))
    if result:
        graph.shapes[result] = (*shape[:-1], result_shape[-1])
    return result


def _matmul(node: onnx.NodeProto, inputs: list[str], build: Builder) -> str:
    """Write Gemm as MatMul, because Gemm does not support leading axes; "" if it scales."""
    values = attributes(node)
    if {values.get("alpha", 1.0), values.get("beta", 1.0)} != {1.0}:
        return ""
    matrix = build.transpose(inputs[1], [1, 0]) if values.get("transB", 0) else inputs[1]
    product = build.op("MatMul", inputs[0], matrix)
    return build.op("Add", product, inputs[2]) if len(inputs) > 2 and inputs[2] else product


def _is_from_first_on(node: onnx.NodeProto, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    start, step = (_constant(optional_input(node, index), producers, graph) for index in (1, 4))
    is_forward = len(node.input) < 5 or (step is not None and not (step != 1).any())
    return start is not None and not start.any() and is_forward


def _is_constant(name: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    return graph.is_constant(name) or (name in producers and producers[name].op_type == "Constant")


def _constant(name: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> np.ndarray | None:
    """The value of a small constant, which may be a Constant node before folding."""
    node = producers.get(name)
    if node is not None and node.op_type == "Constant" and "value" in (values := attributes(node)):
        return numpy_helper.to_array(values["value"])
    return graph.constant(name)


def _is_same(first: str, second: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> bool:
    """Whether two values are computed in the same way."""
    if first == second:
        return True
    constants = _constant(first, producers, graph), _constant(second, producers, graph)
    if constants[0] is not None and constants[1] is not None:
        return constants[0].dtype == constants[1].dtype and np.array_equal(constants[0], constants[1])
    nodes = producers.get(first), producers.get(second)
    if nodes[0] is None or nodes[1] is None or nodes[0].op_type in _RANDOM:
        return False
    is_alike = nodes[0].op_type == nodes[1].op_type and len(nodes[0].input) == len(nodes[1].input)
    outputs = [
        list(node.output).index(name) for node, name in zip(nodes, (first, second), strict=True) if node is not None
    ]
    return (
        is_alike
        and outputs[0] == outputs[1]
        and list(nodes[0].attribute) == list(nodes[1].attribute)
        and all(_is_same(*pair, producers, graph) for pair in zip(nodes[0].input, nodes[1].input, strict=True))
    )


def _is_part(mask: Shape, data: Shape) -> bool:
    """Whether a mask is certainly smaller than the data: ``Where`` would broadcast it."""
    pairs = zip(mask, data, strict=False)
    return any(
        extent != size and (extent == 1 or (isinstance(extent, int) and isinstance(size, int)))
        for extent, size in pairs
    )


def _mask(indices: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The mask whose indices these are, one index a row; "" if there is none."""
    transposed, is_list = producers.get(indices), graph.rank(indices) == 2
    is_reshaped = False
    while transposed is not None and is_list and transposed.op_type in _RESHAPING:
        transposed, is_reshaped = producers.get(transposed.input[0]), True
    if transposed is None or transposed.op_type != "Transpose" or attributes(transposed).get("perm", [1, 0]) != [1, 0]:
        return ""
    nonzero = producers.get(transposed.input[0])
    if nonzero is None or nonzero.op_type != "NonZero":
        return ""
    if is_reshaped and graph.rank(nonzero.input[0]) != 1:
        return ""
    return _narrowest(nonzero.input[0], producers, graph)


def _narrowest(mask: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The mask before it was broadcast over trailing axes."""
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


def _broadcast_source(updates: str, producers: dict[str, onnx.NodeProto], graph: Graph) -> str:
    """The value that is repeated for every index; ``updates`` itself if it is not repeated."""
    name = updates
    while graph.static_shape(name) is None and name in producers and producers[name].op_type in _RESHAPING:
        name = producers[name].input[0]
    return name
