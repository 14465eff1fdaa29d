"""Find the GPU of this machine for a kind of kernels, in a separate process: ``main([KIND, ANSWER])``.

An open driver has threads and memory that do not survive a fork.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tvmake.device.limits import REPORT, read_report
from tvmake.errors import KINDS, DeviceError, TvmakeError
from tvmake.process.forkserver.client import DIRECTORY, entry_command
from tvmake.process.parent_death import bound_environment
from tvmake.process.supervised import last_line, run_supervised
from tvmake.storage.files import write_json
from tvmake.storage.temporary import temporary_directory

ENTRY = "tvmake.device.local.accelerator:main"

NVIDIA = Path("/proc/driver/nvidia/version")

REMEDY = "see `tvmake doctor`"

QUERY_S = 120.0
"""How long drivers may take to answer; the first time, this includes compiling the OpenCL runtime."""


def accelerator(kind: str, env: Mapping[str, str]) -> dict[str, str]:
    """``gpu`` and, if known, ``gpu_driver`` of this machine's device of a kind.

    Args:
        env: variables that select drivers (``OCL_ICD_VENDORS``, ``CUDA_VISIBLE_DEVICES``).

    Raises:
        DeviceError: there is no such device, or its driver does not answer.
        MachineError: the OpenCL runtime must be compiled, and cannot be.
    """
    environment = bound_environment({**os.environ, "TVM_USE_RUNTIME_LIB": "1", **env})
    if env:
        environment.pop(DIRECTORY, None)
    with temporary_directory("tvmake-gpu-") as directory:
        answer = Path(directory) / "answer.json"
        command = entry_command("runtime", ENTRY, [kind, str(answer)])
        try:
            finished = run_supervised(command, QUERY_S, environment=environment)
        except subprocess.TimeoutExpired:
            raise DeviceError(
                "this machine", f"its {kind} driver did not answer within {QUERY_S:g} s", REMEDY
            ) from None
        if not answer.is_file():
            reason = last_line(finished.stderr) or f"exit code {finished.returncode}"
            raise DeviceError("this machine", f"its {kind} driver failed: {reason}", REMEDY)
        properties: dict[str, str] = json.loads(answer.read_text())
    if "problem" in properties:
        raise KINDS[properties["error"]](properties["where"], properties["problem"], properties["remedy"])
    return properties


def main(arguments: list[str]) -> int:
    """Write the answer to a file; the module's docstring describes the arguments."""
    from tvmake.native.runtime_libraries import present

    kind, answer = arguments
    properties: dict[str, str | None]
    try:
        properties = dict(accelerator_properties(kind, present(kind)))
    except TvmakeError as error:
        properties = {
            "error": type(error).__name__,
            "where": error.where,
            "problem": error.problem,
            "remedy": error.remedy or REMEDY,
        }
    write_json(Path(answer), properties)
    return 0


def accelerator_properties(kind: str, device: Any) -> dict[str, str]:
    """Name, driver and limits of this machine's device of a kind, if known."""
    properties = {
        "gpu": device.device_name,
        "gpu_driver": device.driver_version or (nvidia_driver() if kind == "cuda" else None),
    }
    return {name: str(value).strip() for name, value in properties.items() if value} | _limits(kind, device)


def _limits(kind: str, device: Any) -> dict[str, str]:
    if kind != "opencl":
        return {}
    import tvm_ffi

    # TVM's own runtime has no such report.
    report = tvm_ffi.get_global_func(REPORT, allow_missing=True)
    return read_report(report(device.index)) if report else {}


def nvidia_driver() -> str | None:
    """The version of NVIDIA's kernel driver, which CUDA does not report."""
    with suppress(OSError):
        match = re.search(r"\d+\.\d+(\.\d+)?", NVIDIA.read_text())
        return match[0] if match else None
    return None
