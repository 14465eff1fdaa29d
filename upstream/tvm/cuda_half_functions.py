"""The CUDA code generator calls functions of float16 that CUDA does not have."""

import sys

import tvm
from building import device_source, elementwise, in_threads

CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "host": "llvm"})


def still_needed() -> bool:
    source = device_source(in_threads(elementwise(tvm.tirx.sinh, 16, "float16")), CUDA)
    print(source.rsplit("__global__", 1)[1])
    return "hsinh(" in source and "half hsinh" not in source


if __name__ == "__main__":
    sys.exit(still_needed())
