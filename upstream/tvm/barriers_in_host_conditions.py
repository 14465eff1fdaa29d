"""``ThreadSync`` refuses a launch with a barrier inside a condition that the host tests."""

import sys

import tvm
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def kernel(a: T.handle, b: T.handle) -> None:
    n = T.int32()
    A = T.match_buffer(a, (n, 64), "float32")
    B = T.match_buffer(b, (n, 64), "float32")
    with T.sblock("root"):
        if n > 1:
            for block in T.thread_binding(n, thread="blockIdx.x"):
                with T.sblock("group"):
                    row = T.axis.spatial(n, block)
                    T.reads(A[row, 0:64])
                    T.writes(B[row, 0:64])
                    shared = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                    for thread in T.thread_binding(64, thread="threadIdx.x"):
                        with T.sblock("load"):
                            column = T.axis.spatial(64, thread)
                            shared[column] = A[row, column]
                    for thread in T.thread_binding(64, thread="threadIdx.x"):
                        with T.sblock("store"):
                            column = T.axis.spatial(64, thread)
                            B[row, column] = shared[63 - column]


def still_needed() -> bool:
    try:
        tvm.tirx.build(kernel, target=tvm.target.Target({"kind": "opencl"}, host="llvm"))
    except tvm.error.InternalError as error:
        lines = str(error).strip().splitlines()
        print(lines[-1])
        return "Cannot insert syncs inside condition" in str(error)
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
