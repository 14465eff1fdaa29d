"""Arithmetic on the shape of a dynamic dimension is refused by most converters."""

import sys

import numpy as np
from onnx import helper
from onnx_functions import problem

node = helper.make_node
X = np.sin(np.arange(12).reshape(2, 6)).astype("float32")
CONSTANTS = {"two": np.array([2]), "first": np.array([0]), "rest": np.array([-1])}


def still_needed() -> bool:
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "first"], ["n"]), node("Mul", ["n", "two"], ["m"]),
        node("Min", ["m", "m"], ["k"]), node("Concat", ["k", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"]),
    ]  # fmt: skip
    text = problem(nodes, {"x": X}, CONSTANTS, shapes={"x": ["n", 6]})
    print(text or "right")
    return bool(text)


if __name__ == "__main__":
    sys.exit(still_needed())
