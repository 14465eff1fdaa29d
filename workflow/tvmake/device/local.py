"""This machine as a device: every request runs in a process of its own."""

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact.files import digest_file
from tvmake.artifact.package import LIBRARY, REQUIRED
from tvmake.artifact.stage_json import load
from tvmake.config.device import Conditioning, DeviceConfig
from tvmake.device import store
from tvmake.device.accelerator import accelerator
from tvmake.device.architecture import check_library
from tvmake.device.conditioning import conditioned, with_conditions
from tvmake.device.conditioning_files import LocalFiles
from tvmake.device.failure import explained
from tvmake.device.fingerprint import local_fingerprint
from tvmake.device.interface import Deployment, Fingerprint, RunRequest, RunResult
from tvmake.device.lease import lease
from tvmake.errors import KINDS, DeviceError
from tvmake.warm.client import DIRECTORY, PARENT

if TYPE_CHECKING:
    # Started as a process below, by name; this line lets the code fingerprint follow.
    from tvmake.device import worker  # noqa: F401


class LocalDevice:
    """Runs packages on this machine through :mod:`tvmake.device.worker`."""

    def __init__(self, name: str, config: DeviceConfig):
        self.name = name
        self.config = config
        self.where = f"device '{name}'"

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`."""
        place = store.put(package, store.store_root())
        if sys.platform == "linux":
            check_library(place / LIBRARY, platform.machine(), self.where)
        size = sum((place / name).stat().st_size for name in REQUIRED)
        return Deployment(device=self.name, package_sha256=digest_file(package), location=str(place), size_bytes=size)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """See :class:`tvmake.device.interface.Device`."""
        gpu = accelerator(kind, self.config.env) if kind != "cpu" else None
        return local_fingerprint(self.config.threads, kind, gpu)

    def alone(self) -> AbstractContextManager[None]:
        """See :class:`tvmake.device.interface.Device`."""
        return lease(self.name)

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`: this machine is looked at around a measurement, and conditioned where
        the config says so."""
        if request.measurement is None:
            return self._execute(deployment, request, inputs, outputs)
        files = LocalFiles(f"device '{self.name}'")
        with conditioned(files, self.config.conditioning or Conditioning()) as notes:
            result = self._execute(deployment, request, inputs, outputs)
        return with_conditions(result, notes)

    def _execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        with tempfile.TemporaryDirectory(prefix="tvmake-run-") as directory:
            asked, answered = Path(directory) / "request.json", Path(directory) / "result.json"
            asked.write_text(request.model_dump_json())
            command = [sys.executable, "-m", "tvmake.warm.client", "runtime", "worker"]
            command += [deployment.location, str(asked), str(inputs), str(answered)]
            if outputs:
                command.append(str(outputs))
            self._run(command, deployment, fresh=request.measurement is not None)
            problem = Path(f"{answered}.error")
            if problem.is_file():
                kind, where, text, remedy = json.loads(problem.read_text())
                raise KINDS[kind](where, text, remedy)
            return load(RunResult, answered)

    def _run(self, command: list[str], deployment: Deployment, fresh: bool) -> None:
        environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", **self.config.env, PARENT: str(os.getpid())}
        if wants_compiler := store.device_kind(deployment) == "cuda":
            # It holds CUDA's source, which TVM compiles when it loads it, with code that its runtime alone lacks.
            del environment["TVM_USE_RUNTIME_LIB"]
        if fresh or self.config.env or wants_compiler:
            # A fork's memory is partly its parent's, and some variables count only while libraries are loaded.
            environment.pop(DIRECTORY, None)
        if self.config.threads:
            environment["TVM_NUM_THREADS"] = str(self.config.threads)
        # A session of its own, so that a hung run dies with all it started.
        process = subprocess.Popen(
            command, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _, complaint = process.communicate(timeout=self.config.timeout_s)
        except subprocess.TimeoutExpired:
            raise DeviceError(
                self.where,
                f"the run did not end within {self.config.timeout_s:g} s",
                f"raise devices.{self.name}.timeout_s, or measure less (benchmark.repeat, benchmark.min_duration_s)",
            ) from None
        finally:
            _end(process)
        if process.returncode:
            print(complaint, end="", file=sys.stderr)
        if process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            hint = (
                "out of memory?"
                if name == "SIGKILL"
                else "the generated code crashed: build with build.dump to look at it"
            )
            raise DeviceError(self.where, f"running {deployment.location} ended with {name}", hint)
        if process.returncode:
            failure = explained(complaint, Path(deployment.location))
            raise DeviceError(self.where, failure.problem, failure.remedy)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
