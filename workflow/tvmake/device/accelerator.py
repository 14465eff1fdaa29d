"""Which GPU of this machine kernels of a kind run on; asked in a process of its own: ``main([KIND, ANSWER])``.

A driver that was opened leaves threads and memory behind, and does not survive a fork.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact.files import write_json
from tvmake.device.limits import REPORT, read_report
from tvmake.errors import KINDS, DeviceError, TvmakeError
from tvmake.warm.client import DIRECTORY, PARENT

if TYPE_CHECKING:
    # Loaded in the other process only; this line lets the code fingerprint follow.
    from tvmake.device import runtime_libraries  # noqa: F401

NVIDIA = Path("/proc/driver/nvidia/version")

LOOK = "see `tvmake doctor`"

QUERY_S = 120.0
"""How long drivers may take to answer; the first time, the OpenCL runtime is compiled too."""


def accelerator(kind: str, env: Mapping[str, str]) -> dict[str, str]:
    """``gpu`` and, where it is told, ``gpu_driver`` of this machine's device of a kind.

    Args:
        env: variables that choose among drivers (``OCL_ICD_VENDORS``, ``CUDA_VISIBLE_DEVICES``).

    Raises:
        DeviceError: there is none, or its driver does not answer.
        MachineError: the OpenCL runtime has to be compiled, and cannot be.
    """
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", **env, PARENT: str(os.getpid())}
    if env:
        environment.pop(DIRECTORY, None)
    with tempfile.TemporaryDirectory(prefix="tvmake-gpu-") as directory:
        answer = Path(directory) / "answer.json"
        command = [sys.executable, "-m", "tvmake.warm.client", "runtime", "accelerator", kind, str(answer)]
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=QUERY_S)
        except subprocess.TimeoutExpired:
            raise DeviceError("this machine", f"its {kind} driver did not answer within {QUERY_S:g} s", LOOK) from None
        if not answer.is_file():
            lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            raise DeviceError("this machine", f"its {kind} driver failed: {lines[-1]}", LOOK)
        told = json.loads(answer.read_text())
    if "problem" in told:
        raise KINDS[told["error"]](told["where"], told["problem"], told["remedy"])
    return told


def main(arguments: list[str]) -> int:
    """Serve one question; see the module's text for the arguments."""
    from tvmake.device.runtime_libraries import present

    kind, answer = arguments
    try:
        told = facts(kind, present(kind))
    except TvmakeError as error:
        told = {
            "error": type(error).__name__,
            "where": error.where,
            "problem": error.problem,
            "remedy": error.remedy or LOOK,
        }
    write_json(Path(answer), told)
    return 0


def facts(kind: str, device: Any) -> dict[str, str]:
    """What this machine's device of a kind says of itself."""
    told = {
        "gpu": device.device_name,
        "gpu_driver": device.driver_version or (nvidia_driver() if kind == "cuda" else None),
    }
    return {name: str(value).strip() for name, value in told.items() if value} | _limits(kind, device)


def _limits(kind: str, device: Any) -> dict[str, str]:
    if kind != "opencl":
        return {}
    import tvm_ffi

    # A runtime of TVM's own has no such report.
    report = tvm_ffi.get_global_func(REPORT, allow_missing=True)
    return read_report(report(device.index)) if report else {}


def nvidia_driver() -> str | None:
    """The version of NVIDIA's kernel driver, which CUDA does not tell."""
    with suppress(OSError):
        found = re.search(r"\d+\.\d+(\.\d+)?", NVIDIA.read_text())
        return found[0] if found else None
    return None
