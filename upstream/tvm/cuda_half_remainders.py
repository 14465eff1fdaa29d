"""The CUDA code generator has no remainder of float16."""

import sys

import tvm
from building import device_source, elementwise, in_threads

CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "host": "llvm"})


def still_needed() -> bool:
    kernel = elementwise(lambda x, y: tvm.tirx.truncmod(x, y), 16, "float16", "float16")
    try:
        source = device_source(in_threads(kernel), CUDA)
    except Exception as error:
        print(str(error).strip().splitlines()[-1])
        return "floating point in Mod" in str(error)
    print(source)
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
