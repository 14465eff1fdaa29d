"""Exact rewrites of an ONNX graph, an operator or a family of them each."""
