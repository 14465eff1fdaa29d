"""ConvertLayout transposes before ``where``, and before operators whose first operand is a constant."""

import sys

import numpy as np
from building import between_convolutions, transposes
from tvm import relax

op = relax.op
SLOPES = relax.const(np.full((1, 3, 1, 1), 0.1, "float32"))
ZERO = relax.const(0.0)


def still_needed() -> bool:
    least = transposes(between_convolutions(op.nn.relu))
    counts = {
        "where": transposes(between_convolutions(lambda x: op.where(op.greater(x, ZERO), x, op.exp(x)))),
        "PReLU": transposes(between_convolutions(lambda x: op.where(op.greater(x, ZERO), x, op.multiply(SLOPES, x)))),
    }
    print(f"transposes of a network with relu: {least}, with {counts}")
    return any(count > least for count in counts.values())


if __name__ == "__main__":
    sys.exit(still_needed())
