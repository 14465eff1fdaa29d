"""C code generators put bytes from different addresses together as a number, not as a vector."""

import sys

import tvm
from building import device_source, in_threads
from tvm import te

ROWS, LANES = 32, 4


def still_needed() -> bool:
    data = te.placeholder((LANES, 3 * ROWS), "int8", name="data")
    result = te.compute((ROWS, LANES), lambda row, lane: data[lane, 3 * row].astype("int32"), name="result")
    source = device_source(
        in_threads(te.create_prim_func([data, result]), LANES), tvm.target.Target({"kind": "opencl"}, host="llvm")
    )
    print(source)
    return "0x000000ff << 8" in source


if __name__ == "__main__":
    sys.exit(still_needed())
