"""Shape inference gives no shape for the results of GroupNormalization and MeanVarianceNormalization."""

import sys

import onnx
from onnx import TensorProto, helper, shape_inference

NODES = {
    "GroupNormalization": helper.make_node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2),
    "MeanVarianceNormalization": helper.make_node("MeanVarianceNormalization", ["x"], ["y"]),
}


def inferred_rank(node: onnx.NodeProto) -> int | None:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 4, 8, 8]), ("s", [4]))
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    kind = model.graph.output[0].type.tensor_type
    return len(kind.shape.dim) if kind.HasField("shape") else None


def still_needed() -> bool:
    ranks = {name: inferred_rank(node) for name, node in NODES.items()}
    print(f"inferred ranks: {ranks}")
    return None in ranks.values()


if __name__ == "__main__":
    sys.exit(still_needed())
