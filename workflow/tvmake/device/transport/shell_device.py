"""A device that runs packages with the native runner, over any transport with a shell."""

import itertools
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.package import LIBRARY, REQUIRED
from tvmake.artifact.stage_json import load
from tvmake.config.device import ShellDeviceConfig
from tvmake.device import store
from tvmake.device.architecture import check_library
from tvmake.device.failure import crash_remedy, explain_failure, overran
from tvmake.device.interface import Deployment, RunRequest, RunResult
from tvmake.device.transport.programs import RUN, install, start_error
from tvmake.device.transport.remote_store import Uploaded, upload
from tvmake.device.transport.shell import Finished, Shell, Unreachable, bound_command, command_error, command_line
from tvmake.device.transport.shell_facts import Facts, facts
from tvmake.errors import DeviceError, InputError
from tvmake.storage.files import atomic_path
from tvmake.storage.temporary import temporary_directory

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
"""Signals that generated code and full memory cause, by Linux's numbers."""

CRASH_LOG = "logcat -d -b crash -t 60"
"""The last lines of Android's crash log: registers and a backtrace."""


NO_DEVICE = re.compile(r"device '(\w+)'")
"""The subject of the native runner's error if the device for the kernels is missing."""


class ShellDevice:
    """A device behind a shell; a :class:`tvmake.device.interface.Device` without the lease.

    Args:
        name: the device's name in the config, which equal devices share.
        member: which of them it is.
        directory: the directory for files on the device.
        address: its identity for leases and failures; default: the member's name.
    """

    def __init__(
        self,
        name: str,
        member: str,
        config: ShellDeviceConfig,
        connect: Callable[[], Shell],
        directory: str,
        is_android: bool = False,
        address: Callable[[], str] | None = None,
    ):
        self.name = name
        self.member = member
        self.config = config
        self.directory = directory
        self.is_android = is_android
        self.where = f"device '{name}'" if member == name else f"device '{name}' ({member})"
        self._connect = connect
        self._address = address

    @cached_property
    def address(self) -> str:
        """The device's identity, independent of its name in configs."""
        return self._address() if self._address else self.member

    @contextmanager
    def shell(self) -> Iterator[Shell]:
        """A connection, for a block.

        Raises:
            Unreachable: the connection failed or was lost.
        """
        opened = self._connect()
        try:
            yield opened
        except TimeoutError:
            raise Unreachable(self.where, "it did not answer in time", "check its load, or restart it") from None
        finally:
            opened.close()

    def facts(self, shell: Shell) -> Facts:
        """The device's identity, and its directory for files."""
        return facts(shell, self.config.directory or self.directory, self.is_android)

    def push(self, package: Path) -> Deployment:
        return self.push_counted(package)[0]

    def push_counted(self, package: Path) -> tuple[Deployment, int]:
        """Push a package; also returns the number of bytes sent."""
        unpacked = store.put(package, store.store_root())
        digest = unpacked.name
        with self.shell() as shell:
            facts = self.facts(shell)
            check_library(unpacked / LIBRARY, facts.machine, self.where)
            uploaded = self._upload(shell, facts, unpacked, digest)
        size = sum((unpacked / name).stat().st_size for name in REQUIRED)
        deployment = Deployment(device=self.name, package_sha256=digest, location=uploaded.path, size_bytes=size)
        return deployment, uploaded.sent_bytes

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        with self.shell() as shell:
            fingerprint = self.facts(shell).fingerprint(self.config)
        return fingerprint.model_copy(update={"kind": kind})

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        with self.shell() as shell:
            facts = self.facts(shell)
            programs = install(
                shell, self.config, facts, self.name, self.is_android, store.device_kind(deployment) == "opencl"
            )
            package = self._ensure_package(shell, facts, deployment)
            with self._run_directory(shell, facts) as there:
                with temporary_directory("tvmake-run-") as here:
                    request_file = Path(here) / "request.json"
                    request_file.write_text(request.model_dump_json(exclude={"wants_memory"}))  # each run is a program
                    shell.send(request_file, f"{there}/request.json")
                shell.send(inputs, f"{there}/in.npz")
                command = [*programs.command(RUN, self.config), "--package", package]
                command += ["--request", f"{there}/request.json", "--inputs", f"{there}/in.npz"]
                command += ["--result", f"{there}/result.json"]
                command += ["--outputs", f"{there}/out.npz"] if outputs else []
                finished = self._run(shell, command_line(command))
                if finished.code:
                    self._log(shell, finished)
                    self._raise_error(finished, deployment)
                result = self._result(shell, there)
                if outputs:
                    with atomic_path(outputs) as temporary:
                        shell.fetch(f"{there}/out.npz", temporary)
        fingerprint = facts.fingerprint(self.config, result.fingerprint.runtime)
        details = {**result.fingerprint.details, **fingerprint.details}
        fingerprint = fingerprint.model_copy(update={"details": details, "kind": result.fingerprint.kind})
        conditions = {**result.timing.conditions, "device": self.member}
        return RunResult(timing=result.timing.model_copy(update={"conditions": conditions}), fingerprint=fingerprint)

    def _ensure_package(self, shell: Shell, facts: Facts, deployment: Deployment) -> str:
        """The package's path on the device. Equal devices share a deployment, so the package may have to be sent."""
        if shell.run(f"test -d {shlex.quote(deployment.location)}").code == 0:
            return deployment.location
        unpacked = store.store_root() / deployment.package_sha256
        if not unpacked.is_dir():
            raise InputError(
                deployment.location, "the package was deleted", "push it again: `tvmake device push`, or rerun"
            )
        store.read_stored_manifest(unpacked)
        return self._upload(shell, facts, unpacked, deployment.package_sha256).path

    def _upload(self, shell: Shell, facts: Facts, unpacked: Path, digest: str) -> Uploaded:
        files = {file.name: file for file in sorted(unpacked.iterdir())}
        return upload(shell, files, f"{facts.directory}/packages/{digest}")

    @contextmanager
    def _run_directory(self, shell: Shell, facts: Facts) -> Iterator[str]:
        path = f"{facts.directory}/runs/{secrets.token_hex(8)}"
        # A run whose process was killed leaves its directory; no run takes a week.
        tidy = f"find {shlex.quote(facts.directory)}/runs -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {{}} \\;"
        finished = shell.run(f"mkdir -p {shlex.quote(path)} && {{ {tidy}; true; }}")
        if finished.code:
            raise command_error(self.where, f"making {path}", finished.errors)
        try:
            yield path
        finally:
            with suppress(DeviceError, TimeoutError):
                shell.run(f"rm -rf {shlex.quote(path)}")

    def _run(self, shell: Shell, command: str) -> Finished:
        try:
            return shell.run(bound_command(f"exec {command}"), self.config.timeout_s)
        except TimeoutError:
            raise overran(self.where, self.name, self.config.timeout_s) from None

    def _log(self, shell: Shell, finished: Finished) -> None:
        """Write a failed run's output, and on Android the system's report of its crash, to this process's log."""
        output = finished.output + finished.errors
        if self.is_android and finished.code > 128:
            output += shell.run(CRASH_LOG).output
        for line in output.splitlines():
            print(f"{self.member}: {line}", file=sys.stderr)

    def _raise_error(self, finished: Finished, deployment: Deployment) -> None:
        """Turn a run's exit code into an error; the native runner uses the codes of ``tvmake``."""
        error_lines = [line for line in finished.errors.splitlines() if line.startswith("error: ")]
        where, _, problem = error_lines[-1].removeprefix("error: ").partition(": ") if error_lines else ("", "", "")
        if finished.code == 1 and error_lines:
            raise InputError(where, problem, _remedy(finished.errors))
        if error := start_error(finished, RUN, self.where, self.name):
            raise error
        if finished.code > 128:
            name = SIGNALS.get(finished.code - 128, f"signal {finished.code - 128}")
            remedy = crash_remedy(name, store.store_root() / deployment.package_sha256)
            raise DeviceError(self.where, f"running the package ended with {name}", remedy)
        if kind := NO_DEVICE.fullmatch(where):
            where, problem = "", f"it has no {kind[1]} device{problem.removeprefix('there is none')}"
        # Name a library in the error, but not the package.
        line = problem if where == deployment.location else ": ".join(filter(None, (where, problem)))
        failure = explain_failure(line or finished.errors, store.store_root() / deployment.package_sha256)
        raise DeviceError(self.where, failure.problem, _remedy(finished.errors) or failure.remedy)

    def _result(self, shell: Shell, output_directory: str) -> RunResult:
        with temporary_directory("tvmake-run-") as here:
            result_file = Path(here) / "result.json"
            shell.fetch(f"{output_directory}/result.json", result_file)
            return load(RunResult, result_file)


def _remedy(errors: str) -> str | None:
    """The remedy: the indented line below the error."""
    lines = errors.splitlines()
    after = [below for line, below in itertools.pairwise(lines) if line.startswith("error: ")]
    return after[-1].strip() if after and after[-1].startswith("  ") else None
