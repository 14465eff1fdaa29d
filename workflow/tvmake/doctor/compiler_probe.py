"""A process that loads TVM and compiles one small kernel per target kind; prints one JSON object a line.

Runs apart (``python -m tvmake.process.tvm_import tvmake.doctor.compiler_probe``) because a TVM whose libraries do not fit together, or a code
generator without its toolchain, can end the process.
"""

import json
import time
from pathlib import Path
from typing import get_args

import numpy as np
import tvm

from tvmake.storage.temporary import temporary_directory
from tvmake.targets.options import TargetKind, TargetOptions
from tvmake.targets.resolve import tvm_target
from tvmake.targets.sample_kernel import LENGTH, compile_sample_kernel

TARGETS = {"hexagon": TargetOptions(tag="qcom/hexagon-v68"), "cuda": TargetOptions(kind="cuda", arch="sm_80")}
"""Kinds that need more than their name."""


def report(**values: object) -> None:
    """Print one line for the doctor."""
    print(json.dumps(values), flush=True)


def main() -> None:
    """Report TVM's version and the targets that it can compile for."""
    codegen = tvm.target.codegen
    report(
        version=str(tvm.__version__),
        library={str(name): str(value) for name, value in tvm.support.libinfo().items()},
        cpu=str(codegen.llvm_get_system_cpu()),
        triple=str(codegen.llvm_get_system_triple()),
        backends=[str(name) for name in codegen.llvm_get_targets()],
        devices={kind: count for kind in ("cuda", "opencl", "vulkan", "metal", "rocm") if (count := _devices(kind))},
    )
    for kind in get_args(TargetKind):
        report(trying=kind)
        started = time.perf_counter()
        try:
            built = compile_sample_kernel(tvm_target(TARGETS.get(kind, TargetOptions(kind=kind)), kind))
        except Exception as error:  # noqa: BLE001  # each code generator raises its own; the doctor shows it
            report(kind=kind, error=_reason(error))
            continue
        report(
            kind=kind,
            seconds=round(time.perf_counter() - started, 3),
            modules=[str(part.kind) for part in (built.mod, *built.mod.imports)],
        )
    report(trying="link")
    try:
        link_and_run()
    except Exception as error:  # noqa: BLE001
        report(kind="link", error=_reason(error))
    else:
        report(kind="link")


def link_and_run() -> None:
    """Link a kernel with g++, load it and check its result.

    Raises:
        RuntimeError: a step fails, or the values are wrong.
    """
    with temporary_directory("tvmake-probe-") as directory:
        path = str(Path(directory) / "kernel.so")
        compile_sample_kernel(tvm_target(TargetOptions(kind="llvm"), "llvm")).export_library(path, cc="g++")
        function = tvm.runtime.load_module(path)["main"]
        before = tvm.runtime.tensor(np.arange(LENGTH, dtype="float32"))
        after = tvm.runtime.tensor(np.zeros(LENGTH, dtype="float32"))
        function(before, after)
        if not np.array_equal(after.numpy(), before.numpy() + 1):
            raise RuntimeError("the kernel computes wrong numbers")


def _devices(kind: str) -> int:
    count = 0
    while count < 64 and tvm.device(kind, count).exist:
        count += 1
    return count


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200]}" if lines else type(error).__name__


if __name__ == "__main__":
    main()
