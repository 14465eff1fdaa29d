"""Tiles of more than half of the registers stay in registers; other buffers of that size do not."""

import re
from typing import Any

import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import error, lowered
from tvmake.codegen.link import generate
from tvmake.codegen.options import BuildOptions
from tvmake.targets.cpu.vectors.registers import ON_STACK, keep_in_registers

from tvm.script import tirx as T  # isort: skip

AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
PRODUCT = (((64, 96), "float32"), ((96, 128), "float32"))


def marked(function: Any) -> list[str]:
    """The buffers of a function that are left to LLVM."""
    found: list[str] = []

    def note(allocation: Any) -> None:
        if ON_STACK in (allocation.annotations or {}):
            found.append(str(allocation.buffer.name))

    module = tvm.tirx.transform.UnrollLoop()(tvm.IRModule({"main": function}))
    tvm_ffi.structural_walk(keep_in_registers(module)["main"].body, (tvm.tirx.AllocBuffer, note))
    return found


def test_a_tile_of_most_registers_takes_no_memory():
    made = lowered(tvm.relax.op.matmul, *PRODUCT, target=AVX512)
    assembly = generate(made.final, AVX512, BuildOptions(), "targets.t").mod.imports[0].inspect_source("asm")
    assert "TVMBackendAllocWorkspace@" not in assembly
    inner = max(re.split(r"\n\.LBB", assembly), key=lambda block: block.count("vfmadd"))
    assert len(set(re.findall(r"vfmadd\S+\t[^\n]*, %(zmm\d+)\n", inner))) > 16


def test_it_computes_the_same():
    assert error(tvm.relax.op.matmul, *PRODUCT) < 2e-6


def test_buffers_with_dynamic_indices_stay_in_memory():
    @T.prim_func
    def kernel(x: T.Buffer((300,), "float32"), y: T.Buffer((300,), "float32")):
        known = T.alloc_buffer((300,), "float32")
        unknown = T.alloc_buffer((300,), "float32")
        known[3] = x[0]
        known[4] = known[3] + x[1]
        for i in range(300):
            unknown[i] = x[i]
        y[0] = known[4] + unknown[7]

    assert marked(kernel) == ["known"]


def test_so_do_buffers_of_more_than_the_registers_hold_and_those_that_functions_are_given():
    @T.prim_func
    def kernel(x: T.Buffer((2,), "float32"), y: T.Buffer((1,), "float32")):
        large = T.alloc_buffer((600,), "float32")
        given = T.alloc_buffer((300,), "float32")
        large[599] = x[0]
        given[0] = x[1]
        T.evaluate(T.call_extern("int32", "elsewhere", given.data))
        y[0] = large[599] + given[0]

    assert marked(kernel) == []
