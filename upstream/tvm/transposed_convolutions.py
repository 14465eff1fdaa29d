"""Transposed convolutions are computed on an input with zeros between its values."""

import sys

from building import network
from tvm import relax


def still_needed() -> bool:
    module = network(
        lambda x, w: relax.op.nn.conv2d_transpose(x, w, strides=2), ((1, 3, 8, 8), "float32"), ((3, 4, 2, 2), "float32")
    )
    kernel = str(relax.transform.LegalizeOps()(module)["conv2d_transpose"])
    print(kernel)
    return "dilate" in kernel


if __name__ == "__main__":
    sys.exit(still_needed())
