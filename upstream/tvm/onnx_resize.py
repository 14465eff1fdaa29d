"""``Resize`` ignores antialias, and downsampling differs from ONNX."""

import sys

import numpy as np
from onnx import helper
from onnx_functions import problem

IMAGE = np.sin(np.arange(1 * 2 * 7 * 9).reshape(1, 2, 7, 9)).astype("float32")


def still_needed() -> bool:
    sizes = {"sizes": np.array([1, 2, 4, 5])}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)
    text = problem([node], {"x": IMAGE}, sizes)
    print(text or "right")
    return bool(text)


if __name__ == "__main__":
    sys.exit(still_needed())
