"""Worker with one session on a device's server, in which kernels are timed one by one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.codegen.compiler_errors import explain
from tvmake.device.rpc.files import NativeFiles, PlainFiles, files_of
from tvmake.device.rpc.messages import Lost, Open, Opened
from tvmake.device.rpc.orderly_close import close_after_death
from tvmake.device.rpc.remote_fingerprint import limit_threads
from tvmake.device.rpc.session import CLOSED, is_open
from tvmake.device.rpc.version import check_version
from tvmake.tune.measure.kernel import CUDA, LAUNCHES, ArgumentSet, Loop
from tvmake.tune.measure.workers.run_worker import FILL, Fill, Timed, allocate, time_kernel

from tvm import rpc  # isort: skip


@dataclass(frozen=True)
class SessionOptions:
    device: str
    """The runtime's name for the kind of device."""
    loop: Loop
    threads: int | None = None
    """Threads of CPU kernels; the server's cores if None."""


@dataclass(frozen=True)
class TimeThere:
    """Request: send a library to the device and time its kernel."""

    library: Path
    arguments: tuple[ArgumentSet, ...]


class SessionWorker:
    """Times kernels on a device."""

    def __init__(self, options: SessionOptions):
        self.options = options
        self.session: Any = None
        self.files: NativeFiles | PlainFiles | None = None
        self.fill: Fill | None = None

    def answer(self, request: Open | TimeThere) -> Opened | Timed | Lost:
        if isinstance(request, Open):
            self.session = rpc.connect(request.host, request.port, request.match_key, request.timeout_s)
            close_after_death(request.host, request.port, request.timeout_s)
            where = f"server {request.host}:{request.port}"
            check_version(self.session, where)
            self.files = files_of(self.session, where)
            self.fill = self._fill()
            limit_threads(self.session, self.options.threads)
            return Opened()
        try:
            return Timed(self._time(request), LAUNCHES if self.options.device == CUDA else None)
        except Exception as error:
            if is_open(self.session):
                raise
            return Lost(CLOSED if "kShutdown" in str(error) else explain(error))

    def explain(self, error: Exception) -> str:
        return explain(error)

    def _time(self, request: TimeThere) -> tuple[tuple[float, ...], ...]:
        name = request.library.name
        assert self.files is not None
        self.files.send(request.library, name)
        device = self.session.device(self.options.device, 0)
        module = self.session.load_module(name)
        samples = tuple(
            time_kernel(module, device, allocate(arguments.tensors, device, self.fill), self.options.loop)
            for arguments in request.arguments
        )
        self.session.remove(name)
        return samples

    def _fill(self) -> Fill | None:
        try:
            return self.session.get_function(FILL)
        except AttributeError:  # the server lacks TVM's contributed functions
            return None
