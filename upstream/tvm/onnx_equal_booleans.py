"""``Equal`` of booleans compares them as floating-point values, which LLVM refuses."""

import sys

import numpy as np
from onnx import helper
from onnx_functions import problem

X, Y = np.array([True, False, True]), np.array([True, True, False])


def still_needed() -> bool:
    text = problem([helper.make_node("Equal", ["a", "b"], ["y"])], {"a": X, "b": Y}, {})
    print(text or "right")
    return bool(text)


if __name__ == "__main__":
    sys.exit(still_needed())
