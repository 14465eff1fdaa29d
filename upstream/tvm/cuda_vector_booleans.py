"""Four booleans of a vectorised loop are written as a ``ushort4``: eight bytes over four."""

import re
import sys

import tvm
from building import device_source, elementwise, in_threads

CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "host": "llvm"})


def still_needed() -> bool:
    kernel = elementwise(lambda x: x > tvm.tirx.const(0, "float16"), 128, "float16")
    found = re.search(r"\*\(ushort4\*\)\(result[^;]*;", device_source(in_threads(kernel, 4), CUDA))
    print(found.group() if found else "no store of booleans is wider than they are")
    return found is not None


if __name__ == "__main__":
    sys.exit(still_needed())
