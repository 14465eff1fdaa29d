"""A session with one of a tracker's servers: acquired, used by one process, and released when that process ends.

A server serves one session at a time, so the holder of a session is the only user among servers' clients.
"""

import sys
import time
from typing import Any

from tvmake.device.rpc.tracker import Offer, Tracker
from tvmake.errors import DeviceError

CONNECT_S = 15.0
"""How long an offered server may take to open a session: it forks a process and loads its runtime."""

BUSY_WAIT_S = 900.0
"""How long to queue for a device while others use it."""

FREED_S = 2.5
"""How long a native server takes to notice that the process that used it has ended, and to end its work
(native/server/session.cc)."""

LISTED_S = 5.0
"""The interval, while queueing, of checks that the tracker still lists a server."""

REFUSALS = 3
"""Maximum number of offers in a row that do not become a session."""

SESSION_TIMEOUT = "RPCSessionTimeoutError"
"""The beginning of a server's message when it ends a session that took too long (tvm/rpc/server.py)."""

CLOSED = "it closed the connection"
"""The message for TVM's various errors of a lost connection: ``code=kShutdown``, ``Connection reset by peer``, ``Broken pipe``."""


def take(tracker: Tracker, wait_s: float, busy_wait_s: float = BUSY_WAIT_S) -> Offer:
    """Wait for a free server; the offer must be used within seconds.

    Args:
        wait_s: how long to wait for any server of the key.
        busy_wait_s: how long to wait for one to become free.

    Raises:
        DeviceError: there is no server, none became free, or there is no tracker.
    """
    tracker.await_servers(wait_s)
    began = checked = time.monotonic()
    is_reported = False

    def nobody_is_there() -> bool:
        nonlocal checked, is_reported
        if time.monotonic() - checked < LISTED_S:
            return False
        checked = time.monotonic()
        if not is_reported:
            print(f"{tracker.where}: every server with key '{tracker.key}' is busy; waiting", file=sys.stderr)
            is_reported = True
        return not tracker.servers()

    offer = tracker.request(busy_wait_s, nobody_is_there)
    if offer is not None:
        return offer
    tracker.await_servers(0)
    waited = time.monotonic() - began
    problem = f"no server with key '{tracker.key}' at tracker {tracker} came free in {waited:.0f} s"
    remedy = "find who uses it (`tvmake device list`), restart a server that hangs, or add one"
    raise DeviceError(tracker.where, problem, remedy)


def error_line(error: BaseException) -> str:
    """One line for an error of an RPC call: the device's answer, or that the connection is lost."""
    text = str(error)
    if any(sign in text for sign in ("kShutdown", "Connection reset", "Broken pipe", "SockChannel")):
        return CLOSED
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.endswith("Error caught from RPC call:")]
    return lines[0] if lines else type(error).__name__


def is_open(session: Any) -> bool:
    """Whether a session still answers after an error."""
    try:
        session.get_function("tvm.rpc.server.remove")
    except Exception:  # noqa: BLE001  # what it raises depends on how the connection ended
        return False
    return True
