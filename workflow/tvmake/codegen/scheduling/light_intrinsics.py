"""Import the tensor intrinsics that a target can use, and no others.

``import tvm.s_tir.tensor_intrin`` registers the intrinsics of every architecture TVM knows, which takes 20 to 27 s
(CUDA alone 15 s), and TVM 0.27 imports it in ``TuneContext.__init__`` and in every build worker. Here a stand-in
takes the package's place; its submodules are the real ones. Remove when
tests/codegen/scheduling/test_light_intrinsics.py::test_wheel_still_imports_the_intrinsics_of_every_architecture fails.
"""

import importlib
import importlib.util
import sys
import types

import tvm

from tvmake.targets.affected import is_affected
from tvmake.targets.cpu.integers.dots import dots
from tvmake.targets.cuda.fragments import register_fragments
from tvmake.targets.gpu.dot_products import register_dot_products

RELEASES = "<0.28"

PACKAGE = "tvm.s_tir.tensor_intrin"

BY_KIND = {"rocm": "rocm", "hexagon": "hexagon"}
"""Submodules by target kind. Schedules for CUDA and OpenCL name our own, those for Vulkan, Metal and WebGPU none."""

BY_ARCHITECTURE = {
    "x86_64": "x86",
    "i386": "x86",
    "i686": "x86",
    "aarch64": "arm_cpu",
    "arm": "arm_cpu",
    "riscv64": "riscv_cpu",
    "riscv32": "riscv_cpu",
}
"""Submodules by the first part of LLVM's triple."""


def light_intrinsics(target: "tvm.target.Target") -> None:
    """Register the intrinsics ``target`` can use and keep TVM from importing all others.

    Call it before the first ``TuneContext`` of a process, once for each target.
    """
    if is_affected(RELEASES) and PACKAGE not in sys.modules:
        _stand_in()
    if name := intrinsics_of(target):
        importlib.import_module(f"{PACKAGE}.{name}")
    if target.kind.name == "llvm":
        dots(target)
    if target.kind.name == "cuda":
        register_fragments()
    if "gpu" in target.keys:
        register_dot_products()


def intrinsics_of(target: "tvm.target.Target") -> str | None:
    """The submodule with the intrinsics that schedules for ``target`` may name."""
    kind = target.kind.name
    if kind != "llvm":
        return BY_KIND.get(kind)
    triple = str(target.attrs.get("mtriple") or tvm.target.codegen.llvm_get_system_triple())
    architecture = triple.partition("-")[0]
    return BY_ARCHITECTURE.get("arm" if architecture.startswith("armv") else architecture)


def _stand_in() -> None:
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None and found.submodule_search_locations is not None
    package = types.ModuleType(PACKAGE)
    package.__path__ = list(found.submodule_search_locations)
    package.__spec__ = found
    package.__package__ = PACKAGE
    sys.modules[PACKAGE] = package
    tvm.s_tir.tensor_intrin = package
