"""TVM and the compilers around it."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from tvmake.doctor.check import Check, ending, output_of
from tvmake.native.ndk import GET, find_ndk
from tvmake.native.zig import INSTALL as INSTALL_ZIG
from tvmake.native.zig import zig_command
from tvmake.process.python import python_command
from tvmake.targets.options import TargetKind

GROUP = "compilers"
PROBE_TIMEOUT_S = 120.0
VERSION_TIMEOUT_S = 15.0

KIND_HINTS = {
    "cuda": "install the CUDA toolkit (nvcc), and put it on PATH",
    "rocm": "install ROCm, or set ROCM_PATH",
    "vulkan": "build TVM with USE_VULKAN; its wheel lacks it",
    "hexagon": "build TVM with LLVM's Hexagon backend",
}

DRIVERS = {
    "g++": ("links mod.so for this machine", "apt-get install g++"),
    "clang++": ("another linker for `cc:`", "apt-get install clang"),
    "aarch64-linux-gnu-g++": ("links mod.so for Arm Linux", "apt-get install g++-aarch64-linux-gnu"),
    "nvcc": ("compiles CUDA kernels", "install the CUDA toolkit from https://developer.nvidia.com/cuda-downloads"),
}
"""Compiler drivers: their purpose, and how to install them."""


def tvm() -> list[Check]:
    """TVM's libraries, its code generators, and a kernel compiled, linked and run."""
    code, output = output_of(
        python_command("-m", "tvmake.process.tvm_import", "tvmake.doctor.compiler_probe"), PROBE_TIMEOUT_S
    )
    reports = [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    facts = next((line for line in reports if "library" in line), None)
    if facts is None:
        reason = f"takes over {PROBE_TIMEOUT_S:.0f} s to load" if code == 124 else ending(code, output)
        hint = "reinstall the pinned pair: pip install --force-reinstall 'apache-tvm==0.27.0.post1' 'apache-tvm-ffi==0.1.14.post0'"
        return [Check(GROUP, "TVM", "problem", reason, hint, True)]
    on = [
        name.removeprefix("USE_") for name, value in facts["library"].items() if value not in ("OFF", "NOT-FOUND", "")
    ]
    checks = [
        Check(GROUP, "TVM", "ok", f"{facts['version']}, built with {', '.join(on)}", required=True),
        Check(
            GROUP, "LLVM", "ok", f"this CPU is {facts['cpu']} ({facts['triple']}); {len(facts['backends'])} backends"
        ),
    ]
    results = {line["kind"]: line for line in reports if "kind" in line}
    pending = {line["trying"] for line in reports if "trying" in line} - results.keys()
    for kind in get_args(TargetKind):
        checks.append(_generator(kind, results.get(kind), kind in pending, code, output, facts["devices"]))
    link = results.get("link")
    title, hint = "build and run a kernel", "see whether g++ works: apt-get install g++"
    if link is None or "error" in link:
        reason = link["error"] if link else ending(code, output)
        return [*checks, Check(GROUP, title, "problem", reason, hint, True)]
    return [*checks, Check(GROUP, title, "ok", "compiled, linked, loaded, and right", required=True)]


def _generator(
    kind: str, result: Mapping[str, Any] | None, was_tried: bool, code: int, output: str, devices: Mapping[str, int]
) -> Check:
    name, required = f"code for {kind}", kind == "llvm"
    hint = KIND_HINTS.get(kind, "reinstall TVM")
    if result is None:
        reason = ending(code, output) if was_tried else "not tried: the check before it ended the process"
        return Check(GROUP, name, "problem", reason, hint, required)
    if "error" in result:
        return Check(GROUP, name, "missing", result["error"], hint, required)
    count = devices.get(kind, 0)
    here = f"; {count} {'device' if count == 1 else 'devices'} here" if count else ""
    return Check(GROUP, name, "ok", f"compiled a kernel in {result['seconds'] * 1000:.0f} ms{here}", required=required)


def drivers() -> list[Check]:
    """The compiler drivers on PATH."""
    return [
        _tool(name, [path, "--version"] if (path := shutil.which(name)) else None, use, hint, required=name == "g++")
        for name, (use, hint) in DRIVERS.items()
    ]


def android_ndk(environment: Mapping[str, str] = os.environ) -> Check:
    """The Android NDK's C++ compiler for aarch64."""
    location = find_ndk(environment)
    if location is None:
        use = "links mod.so for Android, compiles tvmake's programs for GPUs there"
        return Check(GROUP, "Android NDK", "missing", f"ANDROID_NDK_HOME is not set ({use})", GET)
    root, variable = location
    compilers = sorted(root.glob("toolchains/llvm/prebuilt/*/bin/aarch64-linux-android*-clang++"))
    if not compilers:
        return Check(GROUP, "Android NDK", "problem", f"{variable}={root} has no aarch64 compiler", GET)
    return Check(GROUP, "Android NDK", "ok", f"{_ndk_revision(root)}, {len(compilers)} API levels, {root}")


def zig() -> Check:
    """zig, which links for other Linux systems, and for older C libraries."""
    command = zig_command()
    use = "links mod.so for other Linux systems: `toolchain: zig`"
    return _tool("zig", [*command, "version"] if command else None, use, INSTALL_ZIG)


def emulator() -> Check:
    """QEMU's user-mode emulator, which runs Arm packages on another CPU."""
    path = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    hint = "apt-get install qemu-user-static"
    return _tool("QEMU for aarch64", [path, "--version"] if path else None, "runs Arm programs here", hint)


def _tool(title: str, command: Sequence[str] | None, use: str, hint: str, required: bool = False) -> Check:
    """Check a program by the command that prints its version; without a command, it is not installed."""
    if command is None:
        return Check(GROUP, title, "missing", f"not installed ({use})", hint, required)
    code, output = output_of(command, VERSION_TIMEOUT_S)
    if code:
        return Check(GROUP, title, "problem", f"{command[0]} does not run: {ending(code, output)}", hint, required)
    return Check(GROUP, title, "ok", f"{_version_line(output)} ({use})", required=required)


def _ndk_revision(root: Path) -> str:
    try:
        for line in (root / "source.properties").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Pkg.Revision"):
                return line.partition("=")[2].strip()
    except OSError:
        pass
    return "unknown revision"


def _version_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "release" in line]  # nvcc's first line is its name
    return (telling or lines or ["no version"])[0]
