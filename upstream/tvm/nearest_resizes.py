"""Nearest-neighbour resizes of a dynamic height and width compute each index in floating point."""

import sys

import tvm
from building import network
from tvm import relax


def still_needed() -> bool:
    height, width = (tvm.tirx.Var(name, "int64") for name in ("height", "width"))
    options = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor", "layout": "NCHW"}
    size = relax.ShapeExpr([height * 2, width * 3])
    module = network(
        lambda x: relax.op.image.resize2d(x, size, method="nearest_neighbor", **options),
        ([1, 4, height, width], "float32"),
    )
    kernel = str(relax.transform.LegalizeOps()(module)["resize2d"])
    print(kernel)
    return "T.floor(" in kernel


if __name__ == "__main__":
    sys.exit(still_needed())
