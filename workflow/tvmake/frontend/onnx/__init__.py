"""Import ONNX models: check, prepare with exact rewrites, convert."""
