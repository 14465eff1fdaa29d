"""Values of nested functions are computed in sequence, on the stack, and only if they may be."""

from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import NATIVE, error, lowered
from tests.unoptimised import compile_unoptimised
from tvmake.codegen.link import generate
from tvmake.codegen.options import BuildOptions
from tvmake.targets.cpu.vectors.vector_math import vectorize_math

from tvm.script import tirx as T  # isort: skip

op = tvm.relax.op
SHAPE = ((8, 64), "float32")


def chain(x: Any) -> Any:
    return op.exp(op.tanh(op.log(op.add(op.exp(op.negative(op.sigmoid(x))), tvm.relax.const(1.0, "float32")))))


def lets(module: "tvm.IRModule") -> list[Any]:
    """The values of variables within expressions."""
    found: list[Any] = []
    for function in module.functions.values():
        tvm_ffi.structural_walk(function.body, (tvm.tirx.Let, lambda let: found.append(let.value)))
    return found


def written(made: Any) -> "tvm.IRModule":
    return vectorize_math(
        tvm.IRModule({n: f for n, f in made.final.functions_items() if isinstance(f, tvm.tirx.PrimFunc)})
    )


def test_functions_of_functions_leave_nothing_that_grows_when_it_is_simplified():
    module = written(lowered(chain, SHAPE))
    assert "T.reinterpret" in module.script()
    assert lets(module) == []


def test_they_compute_the_same_as_one_after_the_other():
    assert error(chain, SHAPE) < 1e-6


def test_their_values_take_no_memory_of_the_runtime():
    executable = generate(lowered(chain, SHAPE).final, NATIVE, BuildOptions(), "targets.t")
    assembly = executable.mod.imports[0].inspect_source("ll")
    assert "alloca" in assembly
    assert "call i32 @TVMBackendAllocWorkspace" not in assembly
    assert "load ptr, ptr @__TVMBackendAllocWorkspace" not in assembly


def test_values_that_are_not_taken_are_not_read():
    """Beyond the end there is no memory."""

    @T.prim_func(s_tir=True)
    def padded(x: T.Buffer((6,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.if_then_else(i < 6, T.exp(T.exp(x[i])), T.float32(0)) + T.exp(T.float32(1))

    module = vectorize_math(tvm.IRModule({"main": padded}))
    (store,) = [one for one in _stores(module["main"]) if one.buffer.name == "y"]
    conditional = store.value.a
    read: list[Any] = []
    tvm_ffi.structural_walk(conditional.args[1], (tvm.ir.TensorLoad, lambda load: read.append(load.source.name)))
    assert read == ["x"]
    assert len(_stores(module["main"])) > 1  # of what may always be computed
    x = np.linspace(-2, 1, 6).astype("float32")
    y = tvm.runtime.tensor(np.zeros(8, "float32"))
    compile_unoptimised(module)["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_allclose(y.numpy(), [*(np.exp(np.exp(x)) + np.e), np.e, np.e], rtol=1e-6)


def test_what_depends_on_a_variable_stays_behind_it():
    buffers = [tvm.tirx.decl_buffer((1,), "float32", name) for name in ("x", "y")]
    variable = tvm.tirx.Var("v", "float32")
    value = tvm.tirx.Let(
        variable, tvm.tirx.exp(tvm.tirx.BufferLoad(buffers[0], [0])), tvm.tirx.exp(tvm.tirx.exp(variable))
    )
    store = tvm.tirx.BufferStore(buffers[1], value, [0])
    module = vectorize_math(
        tvm.IRModule({"main": tvm.tirx.PrimFunc(buffers, store).with_attr("global_symbol", "main")})
    )
    x, y = (tvm.runtime.tensor(np.array([start], "float32")) for start in (-0.5, 0))
    compile_unoptimised(module)["main"](x, y)
    np.testing.assert_allclose(y.numpy(), np.exp(np.exp(np.exp(x.numpy()))), rtol=1e-6)


def _stores(function: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.tirx.BufferStore, found.append))
    return found
