"""One device that runs packages with the native runner, over whatever gives it a shell."""

import itertools
import re
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from tvmake.artifact.files import atomic_path, digest_file
from tvmake.artifact.package import LIBRARY, REQUIRED
from tvmake.artifact.stage_json import load
from tvmake.config.device import DeviceConfig
from tvmake.device import store
from tvmake.device.architecture import check_library
from tvmake.device.failure import explained
from tvmake.device.interface import Deployment, Fingerprint, RunRequest, RunResult
from tvmake.device.programs import RUN, bring, not_started
from tvmake.device.remote_store import Placed, place
from tvmake.device.shell import Finished, Shell, Unreachable, bound, joined, refused
from tvmake.device.shell_facts import Facts, facts
from tvmake.errors import DeviceError, InputError

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
"""Those that generated code and full memories bring about; the numbers of Linux."""

CRASH_LOG = "logcat -d -b crash -t 60"
"""The last lines of Android's log of crashes: registers and a backtrace."""


NO_DEVICE = re.compile(r"device '(\w+)'")
"""Where the native runner finds something missing when that is the device that kernels run on."""


class ShellDevice:
    """One device behind a shell; a :class:`tvmake.device.interface.Device` but for the lease.

    Args:
        name: the device's in the config, which equal ones share.
        member: which of them.
        connect: opens a connection.
        directory: where files go on the device.
        address: what its lease and its failures go by; the member's name when None.
    """

    def __init__(
        self,
        name: str,
        member: str,
        config: DeviceConfig,
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
        """The same for the same device, whatever configs call it."""
        return self._address() if self._address else self.member

    @contextmanager
    def shell(self) -> Iterator[Shell]:
        """A connection, for a block.

        Raises:
            Unreachable: there is none to be had, or it was lost.
        """
        opened = self._connect()
        try:
            yield opened
        except TimeoutError:
            raise Unreachable(
                self.where, "it does not answer in time", "see what it is busy with, or restart it"
            ) from None
        finally:
            opened.close()

    def facts(self, shell: Shell) -> Facts:
        """Who it is, and where its files go."""
        return facts(shell, self.config.directory or self.directory, self.is_android)

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`."""
        return self.push_counted(package)[0]

    def push_counted(self, package: Path) -> tuple[Deployment, int]:
        """Push a package; also returns how many bytes were sent."""
        unpacked = store.put(package, store.store_root())
        digest = digest_file(package)
        with self.shell() as shell:
            known = self.facts(shell)
            check_library(unpacked / LIBRARY, known.machine, self.where)
            placed = self._place(shell, known, unpacked, digest)
        size = sum((unpacked / name).stat().st_size for name in REQUIRED)
        deployment = Deployment(device=self.name, package_sha256=digest, location=placed.path, size_bytes=size)
        return deployment, placed.sent_bytes

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """See :class:`tvmake.device.interface.Device`."""
        with self.shell() as shell:
            told = self.facts(shell).fingerprint(self.config)
        return told.model_copy(update={"kind": kind})

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`."""
        with self.shell() as shell:
            known = self.facts(shell)
            programs = bring(
                shell, self.config, known, self.name, self.is_android, store.device_kind(deployment) == "opencl"
            )
            package = self._have(shell, known, deployment)
            with self._run_directory(shell, known) as there:
                with tempfile.TemporaryDirectory(prefix="tvmake-run-") as here:
                    asked = Path(here) / "request.json"
                    asked.write_text(request.model_dump_json())
                    shell.send(asked, f"{there}/request.json")
                shell.send(inputs, f"{there}/in.npz")
                command = [*programs.command(RUN, self.config), "--package", package]
                command += ["--request", f"{there}/request.json", "--inputs", f"{there}/in.npz"]
                command += ["--result", f"{there}/result.json"]
                command += ["--outputs", f"{there}/out.npz"] if outputs else []
                finished = self._run(shell, joined(command))
                if finished.code:
                    self._log(shell, finished)
                    self._judge(finished, deployment)
                result = self._result(shell, there)
                if outputs:
                    with atomic_path(outputs) as temporary:
                        shell.fetch(f"{there}/out.npz", temporary)
        told = known.fingerprint(self.config, result.fingerprint.runtime)
        details = {**result.fingerprint.details, **told.details}
        told = told.model_copy(update={"details": details, "kind": result.fingerprint.kind})
        conditions = {**result.timing.conditions, "device": self.member}
        return RunResult(timing=result.timing.model_copy(update={"conditions": conditions}), fingerprint=told)

    def _have(self, shell: Shell, known: Facts, deployment: Deployment) -> str:
        """Where the package is. Equal devices may each be asked to run what was pushed to one of them."""
        if shell.run(f"test -d {shlex.quote(deployment.location)}").code == 0:
            return deployment.location
        unpacked = store.store_root() / deployment.package_sha256
        if not unpacked.is_dir():
            raise InputError(
                deployment.location, "the package is no longer there", "push it again: `tvmake device push`, or rerun"
            )
        return self._place(shell, known, unpacked, deployment.package_sha256).path

    def _place(self, shell: Shell, known: Facts, unpacked: Path, digest: str) -> Placed:
        files = {file.name: file for file in sorted(unpacked.iterdir())}
        return place(shell, files, f"{known.directory}/packages/{digest}")

    @contextmanager
    def _run_directory(self, shell: Shell, known: Facts) -> Iterator[str]:
        path = f"{known.directory}/runs/{secrets.token_hex(8)}"
        # A run that was killed here leaves its directory there; nothing runs for a week.
        tidy = f"find {shlex.quote(known.directory)}/runs -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {{}} \\;"
        finished = shell.run(f"mkdir -p {shlex.quote(path)} && {{ {tidy}; true; }}")
        if finished.code:
            raise refused(self.where, f"making {path}", finished.complaint)
        try:
            yield path
        finally:
            with suppress(DeviceError, TimeoutError):
                shell.run(f"rm -rf {shlex.quote(path)}")

    def _run(self, shell: Shell, command: str) -> Finished:
        try:
            return shell.run(bound(f"exec {command}"), self.config.timeout_s)
        except TimeoutError:
            raise DeviceError(
                self.where,
                f"the run did not end within {self.config.timeout_s:g} s",
                f"raise devices.{self.name}.timeout_s, or measure less (benchmark.repeat, benchmark.min_duration_s)",
            ) from None

    def _log(self, shell: Shell, finished: Finished) -> None:
        """Put all that a failed run said, and on Android what the system says of its crash, into this process's log."""
        said = finished.output + finished.complaint
        if self.is_android and finished.code > 128:
            said += shell.run(CRASH_LOG).output
        for line in said.splitlines():
            print(f"{self.member}: {line}", file=sys.stderr)

    def _judge(self, finished: Finished, deployment: Deployment) -> None:
        """Turn a run's exit code into an error; the native runner's own are those of ``tvmake``."""
        said = [line for line in finished.complaint.splitlines() if line.startswith("error: ")]
        where, _, problem = said[-1].removeprefix("error: ").partition(": ") if said else ("", "", "")
        if finished.code == 1 and said:
            raise InputError(where, problem, _remedy(finished.complaint))
        if error := not_started(finished, RUN, self.where, self.name):
            raise error
        if finished.code > 128:
            name = SIGNALS.get(finished.code - 128, f"signal {finished.code - 128}")
            hint = (
                "out of memory?"
                if name == "SIGKILL"
                else "the generated code crashed: build with build.dump to look at it"
            )
            raise DeviceError(self.where, f"running {deployment.location} ended with {name}", hint)
        if kind := NO_DEVICE.fullmatch(where):
            where, problem = "", f"it has no {kind[1]} device{problem.removeprefix('there is none')}"
        # A library is worth naming; the package is known.
        line = problem if where == deployment.location else ": ".join(filter(None, (where, problem)))
        failure = explained(line or finished.complaint, store.store_root() / deployment.package_sha256)
        raise DeviceError(self.where, failure.problem, _remedy(finished.complaint) or failure.remedy)

    def _result(self, shell: Shell, there: str) -> RunResult:
        with tempfile.TemporaryDirectory(prefix="tvmake-run-") as here:
            answered = Path(here) / "result.json"
            shell.fetch(f"{there}/result.json", answered)
            return load(RunResult, answered)


def _remedy(complaint: str) -> str | None:
    """The line below the error, as tvmake prints them."""
    lines = complaint.splitlines()
    after = [below for line, below in itertools.pairwise(lines) if line.startswith("error: ")]
    return after[-1].strip() if after and after[-1].startswith("  ") else None
