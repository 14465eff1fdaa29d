"""This machine as a device: each request runs in a separate process."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.package import LIBRARY, REQUIRED
from tvmake.artifact.stage_json import load
from tvmake.config.device import Conditioning, LocalDeviceConfig
from tvmake.config.device_variables import plain
from tvmake.device import store
from tvmake.device.architecture import check_library
from tvmake.device.conditioning.controls import condition, with_conditions
from tvmake.device.conditioning.files import LocalFiles
from tvmake.device.failure import crash_remedy, explain_failure, overran
from tvmake.device.fingerprint import local_fingerprint
from tvmake.device.interface import Deployment, RunRequest, RunResult
from tvmake.device.local.accelerator import accelerator
from tvmake.device.sharing.lease import lease
from tvmake.device.sharing.turns import total_limit_s
from tvmake.errors import KINDS, DeviceError, MachineError
from tvmake.process.forkserver.client import DIRECTORY, entry_command
from tvmake.process.parent_death import bound_environment
from tvmake.process.supervised import exit_description, last_line, run_supervised
from tvmake.storage.refusals import system_error, temporary_file_refused
from tvmake.storage.temporary import temporary_directory

PROCESSOR = Path("/proc/cpuinfo")

ENTRY = "tvmake.device.local.worker:main"

VARIABLES = {"TVM_USE_RUNTIME_LIB": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Packages need only TVM's runtime, and no threads of numpy's library, which would end the process."""


class LocalDevice:
    """Runs packages on this machine through :mod:`tvmake.device.local.worker`."""

    def __init__(self, name: str, config: LocalDeviceConfig):
        self.name = name
        self.config = config
        self.where = f"device '{name}'"

    def push(self, package: Path) -> Deployment:
        directory = store.put(package, store.store_root())
        if sys.platform == "linux":
            check_library(directory / LIBRARY, platform.machine(), self.where)
        size = sum((directory / name).stat().st_size for name in REQUIRED)
        return Deployment(device=self.name, package_sha256=directory.name, location=str(directory), size_bytes=size)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        gpu = accelerator(kind, plain(self.config.env, self.where)) if kind != "cpu" else None
        return local_fingerprint(self.config.threads, kind, gpu)

    def exclusive(self) -> AbstractContextManager[None]:
        return lease(self.name)

    def execute(
        self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None, partner: str = ""
    ) -> RunResult:
        """See :class:`tvmake.device.interface.Device`. This machine's state is recorded around a measurement, and conditioned if
        the config asks for it.

        Args:
            partner: the socket of a process that measures alternately with the package (:mod:`tvmake.device.sharing.turns`).
        """
        if request.measurement is None:
            return self._execute(deployment, request, inputs, outputs)
        files = LocalFiles(f"device '{self.name}'")
        with condition(files, self.config.conditioning or Conditioning()) as notes:
            result = self._execute(deployment, request, inputs, outputs, partner)
        return with_conditions(result, notes)

    def _execute(
        self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None, partner: str = ""
    ) -> RunResult:
        with temporary_directory("tvmake-run-") as directory:
            request_file, result_file = Path(directory) / "request.json", Path(directory) / "result.json"
            request_file.write_text(request.model_dump_json())
            arguments = [deployment.location, str(request_file), str(inputs), str(result_file)]
            arguments += [str(outputs or ""), partner]
            limit_s = self.config.timeout_s
            if partner and request.measurement:
                limit_s += total_limit_s(request.measurement)
            self._run(arguments, deployment, limit_s, fresh=request.measurement is not None and request.wants_memory)
            problem = Path(f"{result_file}.error")
            if problem.is_file():
                kind, where, text, remedy = json.loads(problem.read_text())
                raise KINDS[kind](where, text, remedy)
            return load(RunResult, result_file)

    def _run(self, arguments: list[str], deployment: Deployment, limit_s: float, fresh: bool) -> None:
        environment = bound_environment({**os.environ, **VARIABLES, **plain(self.config.env, self.where)})
        if wants_compiler := store.device_kind(deployment) == "cuda":
            # TVM compiles the CUDA source in it when it loads it, which needs more than the runtime.
            del environment["TVM_USE_RUNTIME_LIB"]
        if fresh or self.config.env or wants_compiler:
            # A fork shares memory with its parent, and some variables are read only while libraries load.
            environment.pop(DIRECTORY, None)
        if self.config.threads:
            environment["TVM_NUM_THREADS"] = str(self.config.threads)
        command = entry_command("runtime", ENTRY, arguments)
        try:
            finished = run_supervised(command, limit_s, environment=environment, stdout=sys.stderr)
        except subprocess.TimeoutExpired:
            raise overran(self.where, self.name, self.config.timeout_s) from None
        if finished.returncode:
            if refused := _file_error(last_line(finished.stderr)):
                raise refused
            print(finished.stderr, end="", file=sys.stderr)
        if finished.returncode < 0:
            name, info = signal.Signals(-finished.returncode).name, PROCESSOR.read_text() if PROCESSOR.is_file() else ""
            remedy = crash_remedy(name, Path(deployment.location), info)
            raise DeviceError(self.where, f"running the package {exit_description(finished.returncode)}", remedy)
        if finished.returncode:
            failure = explain_failure(finished.stderr, Path(deployment.location))
            raise DeviceError(self.where, failure.problem, failure.remedy)


def _file_error(line: str) -> MachineError | None:
    """The system's error, if this last line of a process reports one for an output file; None otherwise."""
    match = re.fullmatch(r"OSError: \[Errno (\d+)\] [^:]+(?:: '(.+)')?", line)
    if not match:
        return None
    temporary = tempfile.gettempdir()
    error = OSError(int(match[1]), "", match[2])
    return temporary_file_refused(error, Path(temporary)) or system_error(int(match[1]), match[2] or temporary)
