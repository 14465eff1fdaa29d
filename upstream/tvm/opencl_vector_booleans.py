"""True in a vector is -1 in OpenCL, and the code generator takes it for 1."""

import sys

import tvm
from building import device_source, elementwise, in_threads


def still_needed() -> bool:
    kernel = elementwise(lambda x: (x > tvm.tirx.const(0.0, "float32")).astype("float32") * x, 128, "float32")
    source = device_source(in_threads(kernel, 4), tvm.target.Target({"kind": "opencl"}, host="llvm"))
    body = source.rsplit("__kernel", 1)[1]
    print(body)
    return "convert_float4" in body


if __name__ == "__main__":
    sys.exit(still_needed())
