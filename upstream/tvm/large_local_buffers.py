"""Local buffers of 1,024 bytes and more are allocated on the heap while a CPU kernel runs."""

import sys

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Tile:
    @T.prim_func(s_tir=True)
    def main(data: T.Buffer((512,), "float32"), result: T.Buffer((512,), "float32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        sums = T.alloc_local((512,), "float32")
        for first in range(512):
            sums[first] = data[first] * T.float32(2.0)
        for second in range(512):
            result[second] = sums[511 - second]


def still_needed() -> bool:
    code = tvm.tirx.build(Tile, target="llvm").inspect_source("ll")
    is_allocated = "TVMBackendAllocWorkspace" in code
    print(f"2,048 bytes are allocated while the kernel runs: {is_allocated}")
    return is_allocated


if __name__ == "__main__":
    sys.exit(still_needed())
