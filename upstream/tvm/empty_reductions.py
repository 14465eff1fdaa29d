"""A sum over a dimension of 0 is the previous content of memory."""

import sys

import numpy as np
import tvm
from building import PLAIN, network
from tvm import relax


def still_needed() -> bool:
    length = tvm.tirx.Var("length", "int64")
    module = network(lambda x: relax.op.sum(x, 1, keepdims=True), ([3, length], "float32"))
    machine = relax.VirtualMachine(tvm.compile(module, target=PLAIN), tvm.cpu())
    for size in (5, 0):
        result = machine["main"](tvm.runtime.tensor(np.ones((3, size), "float32"))).numpy()
    print(f"sums of no values: {result.ravel()}")
    return bool(result.any())


if __name__ == "__main__":
    sys.exit(still_needed())
