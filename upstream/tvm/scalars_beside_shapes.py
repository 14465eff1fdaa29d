"""FuseTIR fails at functions that take a dimension as a scalar and another one in a shape."""

import sys

import tvm
from building import network
from tvm import relax

op, transform = relax.op, relax.transform


def still_needed() -> bool:
    n, past = (tvm.tirx.Var(name, "int64") for name in ("n", "past"))
    module = network(
        lambda x, y: op.exp(op.multiply(op.astype(op.arange(past, past + n), "float32"), relax.const(0.1))),
        ([n], "float32"),
        ([past], "float32"),
    )
    passes = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(), transform.FuseTIR()]
    try:
        with tvm.target.Target("llvm"):
            tvm.transform.Sequential(passes)(module)
    except tvm.error.InternalError as error:
        print(str(error).strip().splitlines()[-1])
        return "VarRemapGet" in str(error)
    print("fused")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
