"""Stores to a texture in an unrolled loop all write the value of the first."""

import re
import sys

from textures import source
from tvm.script import ir as I
from tvm.script import tirx as T

STORED = re.compile(r"write_imagef\([^;]*as_float4\((.*)\)\);")


@I.ir_module
class TwoTexels:
    @T.prim_func(s_tir=True)
    def main(
        data: T.Buffer((8, 2, 4), "float32"), out: T.Buffer((1, 1, 8, 2, 4), "float32", scope="global.texture-weight")
    ):
        T.func_attr({"tirx.noalias": True})
        thread = T.launch_thread("threadIdx.x", 8)
        for texel in T.unroll(2):
            value = T.alloc_local((4,))
            for lane in T.vectorized(4):
                value[lane] = data[thread, texel, lane] + T.float32(1.0)
            out[0, 0, thread, texel, 0:4] = value[T.Ramp(0, 1, 4)]


def still_needed() -> bool:
    first, second = STORED.findall(source(TwoTexels))
    print(f"the first store writes {first}, the second one {second}, after the buffer has changed")
    return first == second and first.startswith("v_")


if __name__ == "__main__":
    sys.exit(still_needed())
