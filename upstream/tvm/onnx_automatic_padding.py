"""``MaxPool`` with SAME_LOWER rounds its extents down, where ONNX Runtime rounds up."""

import sys

import numpy as np
from onnx import helper
from onnx_functions import problem

IMAGE = np.sin(np.arange(1 * 2 * 7 * 9).reshape(1, 2, 7, 9)).astype("float32")


def still_needed() -> bool:
    for attributes in (
        {"auto_pad": "SAME_LOWER", "kernel_shape": [3, 3], "strides": [2, 2]},
        {"auto_pad": "SAME_UPPER", "kernel_shape": [1, 1], "strides": [3, 3]},
    ):
        text = problem([helper.make_node("MaxPool", ["x"], ["y"], **attributes)], {"x": IMAGE}, {})
        print(f"{attributes}: {text or 'right'}")
        if text:
            return True
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
