"""Rewrite the operators of ``ai.onnx.ml`` that scikit-learn's exporter writes around a network: scaled inputs and class labels."""

from collections.abc import Mapping

import numpy as np
import onnx

from tvmake.frontend.onnx.graph import Builder, Rule, attributes


def _array_feature_extractor(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Look up elements of the last axis; a vector becomes a matrix of one row."""
    shape = build.graph.shape(node.input[0])
    if shape is None:
        return None
    indices = build.reshape(node.input[1], [-1])
    data = node.input[0]
    if len(shape) == 1:
        data = build.reshape(data, [1, -1])
    return [build.op("Gather", data, indices, axis=max(len(shape), 2) - 1)]


def _scaler(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Subtract the offset, and multiply by the scale; both are one number, or one for each feature."""
    values = {"offset": [0.0], "scale": [1.0], **attributes(node)}
    offset, scale = (build.const(values[name], np.float32) for name in ("offset", "scale"))
    data = build.cast(node.input[0], onnx.TensorProto.FLOAT)
    return [build.op("Mul", build.op("Sub", data, offset), scale)]


def _binarizer(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """1 above the threshold, else 0."""
    if not (dtype := build.graph.dtype(node.input[0])):
        return None
    threshold = build.const(attributes(node).get("threshold", 0.0), np.float32)
    data = build.cast(node.input[0], onnx.TensorProto.FLOAT)
    return [build.cast(build.op("Greater", data, threshold), dtype)]


RULES: Mapping[str, Rule] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "Scaler": _scaler,
}
