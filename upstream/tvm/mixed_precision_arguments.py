"""ToMixedPrecision fails at calls with arguments other than tensors, and at constants without elements."""

import sys

import numpy as np
import tvm
from building import network
from tvm import relax

op = relax.op
ENDS = {
    "triu": lambda x: op.triu(x, 1),
    "clip": lambda x: op.clip(x, 0, 6),
    "concat with nothing": lambda x: op.concat([relax.const(np.zeros((1, 4, 0, 6), "float32")), x], 2),
}


def still_needed() -> bool:
    weight = relax.const(np.ones((4, 3, 3, 3), "float32"))
    failing = []
    for name, end in ENDS.items():
        module = network(lambda x, end=end: end(op.nn.conv2d(x, weight)), ((1, 3, 8, 8), "float32"))
        try:
            relax.transform.ToMixedPrecision("float32")(relax.transform.Normalize()(module))
        except tvm.error.InternalError as error:
            failing.append(name)
            print(f"{name}: {str(error).strip().splitlines()[-1]}")
    return bool(failing)


if __name__ == "__main__":
    sys.exit(still_needed())
