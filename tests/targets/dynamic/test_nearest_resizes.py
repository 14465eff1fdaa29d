"""Elements of dynamic feature maps are repeated by integer arithmetic on indices."""

import pytest
import tvm
from tvm import relax

from tvmake.targets.dynamic.nearest_resizes import NEAREST_RESIZES


def kernel(layout: str, rules: dict) -> str:
    builder, height, width = relax.BlockBuilder(), *(tvm.tirx.Var(name, "int64") for name in "hw")
    extents = {"N": 1, "C": 4, "H": height, "W": width}
    x = relax.Var("x", relax.TensorType([extents[axis] for axis in layout], "float32"))
    options = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor", "layout": layout}
    size = relax.ShapeExpr([height * 2, width * 3])
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.image.resize2d(x, size, method="nearest_neighbor", **options))
        builder.emit_func_output(out)
    return str(relax.transform.LegalizeOps(rules)(builder.get())["resize2d"])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_indices_are_whole_quotients(layout: str):
    text = kernel(layout, NEAREST_RESIZES)
    assert "// T.int64(2)" in text
    assert "// T.int64(3)" in text
    assert "floor(" not in text
