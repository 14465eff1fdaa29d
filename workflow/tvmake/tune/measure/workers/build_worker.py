"""Worker that builds a shared library from a scheduled kernel, like MetaSchedule's builder."""

import json
import math
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

import tvm

from tvmake.codegen.compiler_errors import explain
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.targets.backends import backend_of, kernel_pipeline
from tvmake.tune.measure.cuda import code as cuda_code

from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # isort: skip


@dataclass(frozen=True)
class BuildOptions:
    target: str
    """The target with its host, as JSON."""
    driver: str
    """The compiler driver that links."""
    cpu_s: float
    """Processor time in seconds after which SIGXCPU ends a build."""


@dataclass(frozen=True)
class Build:
    """Request: build one candidate."""

    module: str
    """The kernel in the format of ``tvm.ir.save_json``."""
    library: Path
    """Path of the library."""


@dataclass(frozen=True)
class Built:
    """Answer: the library is built."""


class BuildWorker:
    def __init__(self, options: BuildOptions):
        self.cpu_s = math.ceil(options.cpu_s)
        self.target = tvm.target.Target(json.loads(options.target))
        light_intrinsics(self.target)
        cuda_code.prepare_builders(self.target)
        if shutil.which(options.driver) is None:
            raise FileNotFoundError(f"there is no program {options.driver}")
        self.driver = options.driver

    def answer(self, request: Build) -> Built:
        # At the hard limit the kernel sends SIGKILL, which would look like an exhausted memory.
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_s, self.cpu_s + 5))
        module = tvm.ir.load_json(request.module)
        # Packing weights ahead of time does not count as the kernel's cost (MetaSchedule's default_build).
        module["main"] = backend_of(self.target).finish_kernel(module["main"])
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
        with cuda_code.machine_code(self.target):
            built = tvm.tirx.build(module, target=self.target, pipeline=kernel_pipeline(self.target))
        built.export_library(str(request.library), cc=self.driver)
        return Built()

    def explain(self, error: Exception) -> str:
        return explain(error)
