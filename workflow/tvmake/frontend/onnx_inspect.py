"""Look at an ONNX model without importing TVM, for `tvmake init`."""

from tvmake.frontend.onnx_inputs import inspect

__all__ = ["inspect"]
