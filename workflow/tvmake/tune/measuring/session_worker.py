"""In a worker: one session with a server on a device, in which kernels are timed one after the other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.device.hang_up import stay_behind
from tvmake.device.orders import Lost, Open, Opened
from tvmake.device.remote_facts import limit_threads
from tvmake.device.rpc_files import NativeFiles, PlainFiles, files_of
from tvmake.device.rpc_version import check_version
from tvmake.device.session import CLOSED, is_there
from tvmake.tune.measuring.failure import explain
from tvmake.tune.measuring.kernel import Loop, TensorSpec
from tvmake.tune.measuring.run_worker import FILL, Fill, Timed, allocate, timed

# After quick_tvm, which decides how TVM is loaded.
from tvm import rpc  # isort: skip


@dataclass(frozen=True)
class SessionOptions:
    """For all candidates."""

    device: str
    """The runtime's name for the kind of device."""
    loop: Loop
    threads: int | None = None
    """Of CPU kernels; as many as the server has when None."""


@dataclass(frozen=True)
class TimeThere:
    """Request: send a library to the device and time its kernel."""

    library: Path
    arguments: tuple[TensorSpec, ...]


class SessionWorker:
    """Times kernels on a device."""

    def __init__(self, options: SessionOptions):
        self.options = options
        self.session: Any = None
        self.files: NativeFiles | PlainFiles | None = None
        self.fill: Fill | None = None

    def answer(self, request: Open | TimeThere) -> Opened | Timed | Lost:
        """See :class:`tvmake.tune.measuring.template.Role`."""
        if isinstance(request, Open):
            self.session = rpc.connect(request.host, request.port, request.match_key, request.timeout_s)
            stay_behind(request.host, request.port, request.timeout_s)
            where = f"server {request.host}:{request.port}"
            check_version(self.session, where)
            self.files = files_of(self.session, where)
            self.fill = self._fill()
            limit_threads(self.session, self.options.threads)
            return Opened()
        try:
            return Timed(self._timed(request))
        except Exception as error:
            if is_there(self.session):
                raise
            return Lost(CLOSED if "kShutdown" in str(error) else explain(error))

    def explain(self, error: Exception) -> str:
        """See :class:`tvmake.tune.measuring.template.Role`."""
        return explain(error)

    def _timed(self, request: TimeThere) -> tuple[float, ...]:
        name = request.library.name
        assert self.files is not None
        self.files.send(request.library, name)
        device = self.session.device(self.options.device, 0)
        module = self.session.load_module(name)
        samples = timed(module, device, allocate(request.arguments, device, self.fill), self.options.loop)
        self.session.remove(name)
        return samples

    def _fill(self) -> Fill | None:
        try:
            return self.session.get_function(FILL)
        except AttributeError:  # this server does without TVM's contributed functions
            return None
