"""Messages to processes that hold a session, and their answers: :mod:`tvmake.device.rpc.worker`, and those that time
candidates (:mod:`tvmake.tune.measure.workers.session_worker`), which share the first part. Both ends are our own processes."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvmake.config.device import RpcDeviceConfig
from tvmake.device.interface import RunRequest


@dataclass(frozen=True)
class Ready:
    """Everything is loaded; an :class:`Open` may come."""


@dataclass(frozen=True)
class Open:
    """Open a session with a server that was offered."""

    host: str
    port: int
    match_key: str
    timeout_s: float
    """After which the server ends the session by itself."""


@dataclass(frozen=True)
class Opened:
    """There is a session; a request may come."""


@dataclass(frozen=True)
class Refused:
    """There is none."""

    line: str


@dataclass(frozen=True)
class Describe:
    """Request: the device's fingerprint."""

    config: RpcDeviceConfig
    where: str


@dataclass(frozen=True)
class RunPackage:
    """Request: run a request on an unpacked package; the answer is a ``RunResult``."""

    config: RpcDeviceConfig
    where: str
    directory: Path
    request: RunRequest
    inputs: Path
    outputs: Path | None


@dataclass(frozen=True)
class CallKernel:
    """Request: call a library's function once; the answer is the last ``returned`` arguments, as the call left them."""

    config: RpcDeviceConfig
    where: str
    library: Path
    function: str
    device: str
    """The runtime's name for the kind of device."""
    arguments: list[np.ndarray]
    returned: int
    scopes: list[str] = field(default_factory=list)
    """The memory of each argument (``global``, or that of a texture); buffers when empty."""


Request = Describe | RunPackage | CallKernel


@dataclass(frozen=True)
class Problem:
    """Answer: an error for the user, as it is."""

    kind: str
    """``input`` or ``device``."""
    where: str
    problem: str
    remedy: str | None


@dataclass(frozen=True)
class Failed:
    """Answer: what was run failed; the device is well."""

    line: str


@dataclass(frozen=True)
class Lost:
    """Answer: the session has ended."""

    line: str
