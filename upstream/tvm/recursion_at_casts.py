"""CanonicalizeBindings does not end at a cast of an expression to one of its own dimensions."""

import sys

import tvm
from building import signal_of
from tvm import relax


def canonicalize() -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    builder = relax.BlockBuilder()
    x, y = relax.Var("x", relax.TensorType([n], "float32")), relax.Var("y", relax.TensorType([m], "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            builder.match_cast(relax.ShapeExpr([n + m]), relax.ShapeType([n]))
            result = builder.emit_output(builder.emit(relax.op.exp(x)))
        builder.emit_func_output(result)
    relax.transform.CanonicalizeBindings()(builder.get())


def still_needed() -> bool:
    signal = signal_of(canonicalize)
    print(f"the pass ends the process with signal {signal}" if signal else "the pass ends")
    return signal != 0


if __name__ == "__main__":
    sys.exit(still_needed())
