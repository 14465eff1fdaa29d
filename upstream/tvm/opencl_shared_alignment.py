"""Shared memory of bytes is used again for integers in OpenCL, and nothing aligns it."""

import sys

import tvm
from building import device_source
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class TwoTypes:
    @T.prim_func(s_tir=True)
    def main(data: T.Buffer((256,), "int8"), result: T.Buffer((64,), "int32")):
        T.func_attr({"tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 1)
        thread = T.launch_thread("threadIdx.x", 64)
        small = T.alloc_buffer((1024,), "int8", scope="shared")
        wide = T.alloc_buffer((64,), "int32", scope="shared")
        for part in T.serial(16):
            small[(block + thread) * 16 + part] = data[thread]
        value = T.alloc_local((1,), "int32")
        value[0] = T.Cast("int32", small[1023 - thread])
        wide[thread] = value[0]
        result[thread] = wide[63 - thread]


def still_needed() -> bool:
    source = device_source(TwoTypes, tvm.target.Target({"kind": "opencl"}, host="llvm"))
    body = source.rsplit("__kernel", 1)[1]
    print(body)
    return "(__local int*)" in body and "aligned" not in body


if __name__ == "__main__":
    sys.exit(still_needed())
