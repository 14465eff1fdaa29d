"""ConvertLayout does not know ``take``."""

import sys

import numpy as np
from building import between_convolutions, transposes
from tvm import relax


def still_needed() -> bool:
    rows = relax.const(np.repeat(np.arange(8), 2))
    lookups = transposes(between_convolutions(lambda x: relax.op.take(x, rows, axis=2)))
    least = transposes(between_convolutions(relax.op.nn.relu))
    print(f"transposes of a network with take: {lookups}, with relu: {least}")
    return lookups > least


if __name__ == "__main__":
    sys.exit(still_needed())
