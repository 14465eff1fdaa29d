"""NarrowDataType loses the hint by which LoopPartition splits a loop of int64."""

import sys

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Hinted:
    @T.prim_func(s_tir=True)
    def main(data: T.Buffer((T.int64(70),), "float32"), result: T.Buffer((T.int64(70),), "float32")):
        T.func_attr({"tirx.noalias": True})
        for outer in range(T.int64(5)):
            for inner in T.serial(T.int64(16), annotations={"pragma_loop_partition_hint": 1}):
                if outer * T.int64(16) + inner < T.int64(70):
                    result[outer * T.int64(16) + inner] = data[outer * T.int64(16) + inner]


def partitioned(module: tvm.IRModule) -> str:
    with tvm.transform.PassContext(config={"s_tir.LoopPartition": {"partition_const_loop": True}}):
        return str(tvm.s_tir.transform.LoopPartition()(module))


def still_needed() -> bool:
    lowered = tvm.s_tir.transform.LowerOpaqueBlock()(Hinted)
    narrowed = tvm.tirx.transform.NarrowDataType(32)(lowered)
    print(partitioned(narrowed))
    return partitioned(lowered).count("for ") > partitioned(narrowed).count("for ")


if __name__ == "__main__":
    sys.exit(still_needed())
