"""Replace operators that TVM lacks by the function bodies that ONNX defines for them.

An ONNX function is an operator that is defined by a graph of simpler ones. Some bodies depend on the node's attributes
and input types ("context dependent").
"""

import numpy as np
import onnx
from onnx import defs

from tvmake.frontend.onnx.graph import Builder, Graph, Rule, attributes, optional_input, subgraphs

OPERATORS = frozenset({
    "Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "FlexAttention", "HammingWindow",
    "HannWindow", "LinearAttention", "NegativeLogLikelihoodLoss", "RotaryEmbedding", "SequenceMap",
    "SoftmaxCrossEntropyLoss", "SwiGLU", "Swish",
})  # fmt: skip
"""Always expanded: TVM has no importer for them, or (Attention) one for a different operator."""

DOMAINS = ("", "ai.onnx", "ai.onnx.preview")


def expand(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """The node's function body with its values bound; None if ONNX defines none for this opset."""
    graph = build.graph
    function = function_of(node, graph)
    if function is None:
        return None
    names = {"": ""}
    for index, name in enumerate(function.input):
        names[name] = optional_input(node, index)
    attribute_values = {attribute.name: attribute for attribute in node.attribute}
    attribute_values = {**{attribute.name: attribute for attribute in function.attribute_proto}, **attribute_values}
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        for name in inner.output:
            names[name] = graph.fresh(f"{build.prefix}_{name}") if name else ""
        _bind(copy, names, attribute_values)
        if node.op_type in MASKED and copy.op_type == "ReduceMax":
            _reduce_max_of_infinities(copy, build)
        else:
            build.nodes.append(copy)
    return [names.get(name, "") for name in function.output]


MASKED = frozenset({"Attention", "FlexAttention"})
"""Their bodies test whether a row is fully masked, that is, whether its maximum is -inf."""


def _reduce_max_of_infinities(node: onnx.NodeProto, build: Builder) -> None:
    """Write ReduceMax so that a row of -inf gives -inf; TVM's starts from the lowest finite number."""
    data, axes = node.input[0], list(node.input[1:])
    values = attributes(node)
    is_low = build.op(
        "And", build.op("IsInf", data), build.op("Less", data, build.op("CastLike", build.const(0, np.float32), data))
    )
    all_low = build.op("ReduceMin", build.cast(is_low, onnx.TensorProto.INT32), *axes, **values)
    maximum = build.op("ReduceMax", data, *axes, **values)
    infinity = build.op("CastLike", build.const(-np.inf, np.float32), maximum)
    chosen = build.op("Where", build.cast(all_low, onnx.TensorProto.BOOL), infinity, maximum)
    build.nodes.append(onnx.helper.make_node("Identity", [chosen], list(node.output)))


def function_of(node: onnx.NodeProto, graph: Graph) -> onnx.FunctionProto | None:
    """The function body for a node at the model's opset, with defaults for absent attributes."""
    if node.domain not in DOMAINS:
        return None
    opset = next(
        (
            entry.version
            for entry in graph.model.opset_import
            if entry.domain in ({"", "ai.onnx"} if node.domain in ("", "ai.onnx") else {node.domain})
        ),
        1,
    )
    try:
        schema = defs.get_schema(node.op_type, opset, "" if node.domain == "ai.onnx" else node.domain)
    except defs.SchemaError:
        return None
    body = b""
    if schema.has_context_dependent_function:
        types = [_type_of(graph, name).SerializeToString() for name in node.input]
        versions = [v for v in sorted(schema.context_dependent_function_opset_versions) if v <= graph.opset]
        if versions:
            body = schema.get_context_dependent_function_with_opset_version(
                versions[-1], node.SerializeToString(), types
            )
    elif schema.has_function:
        versions = [v for v in sorted(schema.function_opset_versions) if v <= graph.opset]
        if versions:
            body = schema.get_function_with_opset_version(versions[-1])
    if not body:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    present = {attribute.name for attribute in function.attribute_proto}
    for name, attribute in sorted(schema.attributes.items()):
        if name not in present and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return function


def _type_of(graph: Graph, name: str) -> onnx.TypeProto:
    value = onnx.TypeProto()
    if name:
        value.tensor_type.elem_type = graph.dtype(name)
        shape = graph.shape(name)
        if shape is not None:
            value.tensor_type.shape.SetInParent()
            for extent in shape:
                dim = value.tensor_type.shape.dim.add()
                if isinstance(extent, int):
                    dim.dim_value = extent
                elif extent is not None:
                    dim.dim_param = extent
    return value


def _bind(node: onnx.NodeProto, names: dict[str, str], attribute_values: dict[str, onnx.AttributeProto]) -> None:
    """Rename values and replace attribute references by values, in a node and its bodies."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    bound = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.append(attribute)
        elif attribute.ref_attr_name in attribute_values:
            value = onnx.AttributeProto()
            value.CopyFrom(attribute_values[attribute.ref_attr_name])
            value.name = attribute.name
            bound.append(value)
    del node.attribute[:]
    node.attribute.extend(bound)
    for body in subgraphs(node):
        inside = {name: name for inner in body.node for name in inner.output} | {v.name: v.name for v in body.input}
        scope = {**names, **inside}
        for inner in body.node:
            _bind(inner, scope, attribute_values)
        for value in body.output:
            value.name = scope.get(value.name, value.name)


RULES: dict[str, Rule] = dict.fromkeys(sorted(OPERATORS), expand)
