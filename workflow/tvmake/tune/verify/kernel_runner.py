"""Run a kernel once for its output: on this machine, or on a device behind an RPC tracker."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.codegen.compiler_errors import telling_line
from tvmake.codegen.run_kernel import ENTRY, KernelRequest, Tensor, filled_array
from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.config.device_variables import plain
from tvmake.device.rpc.device import RequestFailed, RPCSessions, SessionLost, SessionTimeout
from tvmake.device.rpc.messages import CallKernel
from tvmake.device.rpc.serving import serve_devices
from tvmake.process.forkserver.client import DIRECTORY, entry_command
from tvmake.process.parent_death import bound_environment
from tvmake.process.supervised import exit_description, run_supervised
from tvmake.storage.refusals import check_loadable
from tvmake.storage.temporary import temporary_directory
from tvmake.targets.backends import device_kind
from tvmake.tune.measure.machine_faults import check_machine

if TYPE_CHECKING:
    import tvm


ENTRY_POINT = "tvmake.codegen.run_kernel:main"

ATTEMPTS = 2
"""Attempts for a kernel while devices are lost; the second loss is attributed to the kernel."""


NONE: Mapping[str, str] = {}

GLOBAL = "global"
"""The memory scope of a buffer."""


class KernelFailure(Exception):
    """A kernel without output; the text is the reason, in one line."""


class KernelRunner(Protocol):
    """Runs libraries of one kernel."""

    compiler: str
    """The compiler driver that links libraries for it."""

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        """Run a kernel once.

        Args:
            library: a shared library with the kernel as ``main``, which takes inputs, then outputs.
            fill: the byte that outputs are filled with before.
            scopes: the memory scope of each input (``Tensor.scope``); buffers by default.

        Raises:
            KernelFailure: the kernel crashed, raised an error or did not end; the device still works.
            DeviceError: the device cannot be reached, or was lost.
        """
        ...


class LocalKernelRunner:
    """Run kernels on this machine, each in a separate process.

    Args:
        timeout_s: time limit for loading and running a kernel, in seconds.
        threads: threads of CPU kernels; the machine's cores by default.
    """

    def __init__(
        self,
        timeout_s: float = 60.0,
        device: str = "cpu",
        threads: int | None = None,
        compiler: str = "g++",
        variables: Mapping[str, str] = NONE,
    ):
        self.timeout_s = timeout_s
        self.variables = variables
        self.device = device
        self.threads = threads
        self.compiler = compiler

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        """See :class:`KernelRunner`.

        Raises:
            MachineError: libraries cannot be loaded from their directory, or the machine lacks resources.
        """
        check_loadable(library.parent)
        with temporary_directory("tvmake-kernel-") as name:
            request_file, inputs_file, outputs_file = (
                Path(name) / part for part in ("request.json", "inputs.npz", "outputs.npz")
            )
            request = KernelRequest(
                library=str(library.resolve()),
                device=self.device,
                inputs=tuple(
                    Tensor(dtype=str(value.dtype), shape=value.shape, scope=scope)
                    for value, scope in zip(inputs, scopes or [GLOBAL] * len(inputs), strict=True)
                ),
                outputs=tuple(outputs),
                fill=fill,
            )
            request_file.write_text(request.model_dump_json())
            with zipfile.ZipFile(inputs_file, "w", zipfile.ZIP_STORED) as archive:
                for number, value in enumerate(inputs):
                    write_array(archive, member("input", None, number), value)
            self._run([str(request_file), str(inputs_file), str(outputs_file)])
            with zipfile.ZipFile(outputs_file) as archive:
                return [
                    read_array(archive, member("output", None, number), output.dtype)
                    for number, output in enumerate(outputs)
                ]

    def _run(self, arguments: list[str]) -> None:
        environment = bound_environment({**os.environ, "TVM_USE_RUNTIME_LIB": "1", **self.variables})
        if self.variables:
            environment.pop(
                DIRECTORY, None
            )  # some variables only count while libraries are loaded, which happens in the fork's parent
        if self.threads:
            environment["TVM_NUM_THREADS"] = str(self.threads)
        command = entry_command("runtime", ENTRY_POINT, arguments)
        try:
            finished = run_supervised(command, self.timeout_s, environment=environment, stdout=sys.stderr)
        except subprocess.TimeoutExpired:
            raise KernelFailure(f"it did not end within {self.timeout_s:g} s") from None
        check_machine(telling_line(finished.stderr) if finished.returncode else "")
        if finished.returncode < 0:
            raise KernelFailure(f"it {exit_description(finished.returncode)}")
        if finished.returncode:
            raise KernelFailure(f"it failed: {telling_line(finished.stderr) or 'no message'}")


class RPCKernelRunner:
    """Run kernels on a device behind a tracker, each in a separate session.

    Args:
        reach: connects to the device; called once, for the first kernel.
    """

    def __init__(self, reach: Callable[[], RPCSessions], kind: str = "cpu", compiler: str = "g++"):
        self.kind = kind
        self.compiler = compiler
        self._reach = reach

    @cached_property
    def _sessions(self) -> RPCSessions:
        return self._reach()

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        config = self._sessions.config
        request = CallKernel(
            config=config,
            where=self._sessions.where,
            library=library.resolve(),
            function=ENTRY,
            device=self.kind,
            arguments=[*inputs, *(filled_array(output, fill) for output in outputs)],
            returned=len(outputs),
            scopes=[*(scopes or [GLOBAL] * len(inputs)), *(output.scope for output in outputs)],
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._sessions.fulfil(request, config.session_timeout_s)
            except RequestFailed as failed:
                raise KernelFailure(f"it failed: {failed}") from None
            except SessionTimeout:
                raise KernelFailure(f"it did not end within {config.session_timeout_s:g} s") from None
            except SessionLost as lost:
                why = lost.line
                if attempt < ATTEMPTS:
                    line = f"device {lost.address} was lost ({why}) while a kernel was checked; it is tried once more"
                    print(f"warning: {line}", file=sys.stderr)
        raise KernelFailure(f"a device was lost each of the {ATTEMPTS} times it ran ({why})")


def kernel_runner(name: str, config: DeviceConfig, target: "tvm.target.Target", compiler: str) -> KernelRunner:
    """Create the runner for kernels of a target on a device of the config.

    Raises:
        DeviceError: the device cannot be reached.
    """
    kind = device_kind(target)
    match config:
        case LocalDeviceConfig():
            variables = plain(config.env, f"device '{name}'")
            return LocalKernelRunner(device=kind, threads=config.threads, compiler=compiler, variables=variables)
        case RpcDeviceConfig():
            sessions = RPCSessions(name, config)
            return RPCKernelRunner(lambda: sessions, kind, compiler)
        case _:

            def serve() -> RPCSessions:
                servers = serve_devices(name, config, kind)
                return RPCSessions(name, servers.config, servers)

            return RPCKernelRunner(serve, kind, compiler)
