"""The result of a NonMaxSuppression of a dynamic number of boxes has as many rows as its limit."""

import sys

import tvm
from tvm import relax

LIMIT = 1000000


def selection() -> tvm.IRModule:
    """The boxes that are kept, of any number, without a limit that matters."""
    builder = relax.BlockBuilder()
    count = tvm.tirx.Var("count", "int64")
    boxes = relax.Var("boxes", relax.TensorType([1, count, 4], "float32"))
    scores = relax.Var("scores", relax.TensorType([1, 1, count], "float32"))
    with builder.function("main", [boxes, scores]):
        limits = relax.const(LIMIT, "int64"), relax.const(0.5, "float32"), relax.const(0.0, "float32")
        select = relax.op.vision.all_class_non_max_suppression
        builder.emit_func_output(builder.emit(select(boxes, scores, *limits, output_format="onnx")))
    return builder.get()


def still_needed() -> bool:
    module = relax.transform.LegalizeOps()(selection())
    rows = module["main"].body.blocks[0].bindings[0].value.ty.fields[0].shape[0]
    print(f"{rows} rows")
    return isinstance(rows, tvm.tirx.IntImm) and int(rows) == LIMIT


if __name__ == "__main__":
    sys.exit(still_needed())
