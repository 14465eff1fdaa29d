"""A small kernel that tests whether TVM generates code for a target."""

import tvm
from tvm import te
from tvm.s_tir import dlight

LENGTH = 64


def compile_sample_kernel(target: "tvm.target.Target") -> "tvm.runtime.Executable":
    """Compile a kernel that adds one to each of ``LENGTH`` float32 values."""
    values = te.placeholder((LENGTH,), "float32", name="values")
    result = te.compute((LENGTH,), lambda index: values[index] + te.const(1, "float32"), name="result")
    module = tvm.IRModule({"main": te.create_prim_func([values, result])})
    with target:
        if "gpu" in target.keys:
            module = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(module)
        return tvm.compile(module, target=target)
