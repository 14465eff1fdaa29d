"""ONNX Runtime's operators (domain ``com.microsoft``), which its optimisations and tools leave in a file, as ONNX's own."""
