"""Reshapes with dynamic dimensions divide by every dimension, and are opaque to fusion."""

import sys

import tvm
from building import network
from tvm import relax

OPAQUE = 8


def still_needed() -> bool:
    height, width = (tvm.tirx.Var(name, "int64") for name in ("height", "width"))
    module = network(
        lambda x: relax.op.reshape(relax.op.exp(x), [1, 2, 4, height, width]), ([1, 8, height, width], "float32")
    )
    kernels = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(module))
    pattern = int(kernels["reshape"].attrs["op_pattern"])
    print(f"the pattern of the reshape is {pattern} (2: injective, {OPAQUE}: opaque)")
    return pattern == OPAQUE


if __name__ == "__main__":
    sys.exit(still_needed())
