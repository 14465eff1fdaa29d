"""ONNX: check, prepare with exact rewrites, convert."""
