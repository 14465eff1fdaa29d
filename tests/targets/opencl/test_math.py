"""OpenCL kernels only call mathematical functions that OpenCL has."""

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, executable, lowered, op, target, tensor
from tests.unoptimised import compile_unoptimised
from tvmake.native.backend import opencl_library
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.opencl.math import FUNCTIONS

from tvm import te  # isort: skip

X = tensor(3, 5)

OPERATORS = {
    "tan": op.tan,
    "asin": op.asin,
    "acos": op.acos,
    "atan": op.atan,
    "asinh": op.asinh,
    "acosh": lambda x: op.acosh(op.add(x, tvm.relax.const(2.0))),
    "atanh": op.atanh,
    "atan2": lambda x: op.atan2(x, op.exp(x)),
}


def source(name: str) -> str:
    """The OpenCL kernel of one function."""
    function = getattr(tvm.tirx, name)
    data = te.placeholder((8,), "float32", name="data")
    count = 2 if name in ("atan2", "copysign", "hypot", "ldexp", "nextafter") else 1
    result = te.compute((8,), lambda place: function(*[data[place]] * count), name="result")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([data, result]))
    schedule.bind(*schedule.get_loops(schedule.get_sblock("result")), "threadIdx.x")
    built = tvm.tirx.build(schedule.mod, target=target(BUFFER), pipeline=kernel_pipeline(target(BUFFER)))
    return str(built.imports[0].inspect_source(""))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_the_suffix_of_c(name):
    assert f" {name}(" in source(name)
    assert f"{name}f(" not in source(name)


@pytest.mark.parametrize("operator", OPERATORS)
def test_its_value_is_right(operator):
    need("PoCL")
    opencl_library()
    data = np.linspace(-0.9, 0.9, 15, dtype=np.float32).reshape(3, 5)
    values = {}
    for name, device in ((BUFFER, tvm.device("opencl", 0)), ("llvm", tvm.cpu())):
        if name == "llvm":
            built = compile_unoptimised(lowered(OPERATORS[operator], X, name=BUFFER).fused)
        else:
            built = executable(lowered(OPERATORS[operator], X, name=name), name)
        machine = tvm.relax.VirtualMachine(built, device)
        values[name] = machine["main"](tvm.runtime.tensor(data, device)).numpy()
    np.testing.assert_allclose(values[BUFFER], values["llvm"], rtol=1e-4, atol=1e-5)
