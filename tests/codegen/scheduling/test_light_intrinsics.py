"""Only the intrinsics that a target can use are imported."""

import subprocess
import sys

import pytest
import tvm

from tvmake.targets.backends import backend_of

LIGHT = """
import sys
import tvm
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "cascadelake", "num-cores": 1})
light_intrinsics(target)
light_intrinsics(target)
from tvm import te
from tvm.s_tir import meta_schedule
from tvm.s_tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN
tvm.s_tir.TensorIntrin.get(VNNI_DOT_16x4_INTRIN)
x = te.placeholder((64, 64), name="x")
kernel = te.create_prim_func([x, te.compute((64, 64), lambda i, j: x[i, j] * 2, name="y")])
context = meta_schedule.TuneContext(kernel, target=target, space_generator="post-order-apply")
print(len(context.generate_design_space()) > 0)
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("tvm.s_tir.tensor_intrin.")))
"""


def test_a_context_for_x86_works_with_the_intrinsics_of_x86_alone():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "x86"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"kind": "llvm", "mtriple": "x86_64-linux-gnu"}, "x86"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-android"}, "arm_cpu"),
        ({"kind": "llvm", "mtriple": "armv7a-linux-gnueabihf", "mfloat-abi": "hard"}, "arm_cpu"),
        ({"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu", "mcpu": "generic-rv64"}, "riscv_cpu"),
        ({"kind": "llvm", "mtriple": "mips64-linux-gnu"}, None),
        ({"kind": "cuda", "arch": "sm_80"}, None),
        ({"kind": "opencl", "host": {"kind": "llvm", "mtriple": "aarch64-linux-android"}}, None),
    ],
)
def test_a_target_has_the_intrinsics_of_its_architecture(target: dict, expected: str | None):
    made = tvm.target.Target(target)
    assert backend_of(made).intrinsics_module(made) == expected
