"""Messages to processes that hold a session, and their answers: :mod:`tvmake.device.rpc.worker`, and those that time
candidates (:mod:`tvmake.tune.measure.workers.session_worker`), which share the first part. Both ends are tvmake's processes."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvmake.config.device import RpcDeviceConfig
from tvmake.device.interface import RunRequest


@dataclass(frozen=True)
class Ready:
    """Everything is loaded; the next message is an :class:`Open`."""


@dataclass(frozen=True)
class Open:
    """Open a session with an offered server."""

    host: str
    port: int
    match_key: str
    timeout_s: float
    """The time after which the server ends the session."""


@dataclass(frozen=True)
class Opened:
    """The session is open; the next message is a request."""


@dataclass(frozen=True)
class Refused:
    """The session could not be opened."""

    line: str


@dataclass(frozen=True)
class Describe:
    """Request: the device's fingerprint."""

    config: RpcDeviceConfig
    where: str


@dataclass(frozen=True)
class RunPackage:
    """Request: run an unpacked package; the answer is a ``RunResult``."""

    config: RpcDeviceConfig
    where: str
    directory: Path
    request: RunRequest
    inputs: Path
    outputs: Path | None


@dataclass(frozen=True)
class CallKernel:
    """Request: call a library's function once; the answer is its last ``returned`` arguments after the call."""

    config: RpcDeviceConfig
    where: str
    library: Path
    function: str
    device: str
    """The runtime's name for the kind of device."""
    arguments: list[np.ndarray]
    returned: int
    scopes: list[str] = field(default_factory=list)
    """The memory scope of each argument (``global``, or a texture's); default: buffers."""


Request = Describe | RunPackage | CallKernel


@dataclass(frozen=True)
class Problem:
    """Answer: an error for the user, unchanged."""

    kind: str
    """``input`` or ``device``."""
    where: str
    problem: str
    remedy: str | None


@dataclass(frozen=True)
class Failed:
    """Answer: the request failed; the device still works."""

    line: str


@dataclass(frozen=True)
class Lost:
    """Answer: the session has ended."""

    line: str
