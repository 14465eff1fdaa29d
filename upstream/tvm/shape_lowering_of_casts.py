"""VMShapeLower does not compute an expression that a match_cast reads."""

import sys

import tvm
from tvm import relax


def still_needed() -> bool:
    n = tvm.tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([n], "float32"))
    with builder.function("main", [x]):
        m = tvm.tirx.IntImm("int64", 8)
        builder.match_cast(relax.ShapeExpr([n * 2]), relax.ShapeType([m]))
        builder.emit_func_output(builder.emit(relax.op.exp(x)))
    try:
        tvm.compile(builder.get(), target="llvm")
    except tvm.error.InternalError as error:
        print(str(error).strip().splitlines()[-1])
        return True
    print("compiled")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
