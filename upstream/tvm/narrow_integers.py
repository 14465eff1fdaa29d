"""C code generators compute integers of 8 and 16 bits in the width of C's ``int``."""

import sys

import tvm
from building import device_source, elementwise, in_threads


def still_needed() -> bool:
    kernel = elementwise(lambda x, y: tvm.tirx.truncdiv(x * y, y), 64, "int8", "int8")
    source = device_source(in_threads(kernel), tvm.target.Target({"kind": "opencl"}, host="llvm"))
    body = source.rsplit("__kernel", 1)[1]
    print(body)
    return "convert_char" not in body


if __name__ == "__main__":
    sys.exit(still_needed())
