"""Exact rewrites of an ONNX graph; every module rewrites one operator or a family of operators."""
