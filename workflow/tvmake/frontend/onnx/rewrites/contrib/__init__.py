"""Rewrite ONNX Runtime's operators (domain ``com.microsoft``) to ONNX's own; its optimisations and tools write them."""
