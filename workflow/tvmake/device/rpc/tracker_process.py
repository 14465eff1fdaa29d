"""TVM's RPC tracker in one process: ``python -m tvmake.device.rpc.tracker_process HOST PORT``.

TVM's own command starts a second process that continues when the first is killed, and above port 9198 it ends without a
message. Port 0 takes a free one. The first line printed is ``tracker HOST:PORT``, after it accepts connections.
"""

import errno
import os
import socket
import sys
from collections.abc import Callable

from tvmake.errors import MachineError
from tvmake.process.parent_death import end_with_starter
from tvmake.process.tvm_import import hide_torch_from_tvm


def serve(host: str, port: int, ready: Callable[[int], None]) -> None:
    """Run a tracker until the process ends.

    Args:
        ready: called with the port after connections are accepted.

    Raises:
        MachineError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        remedy = (
            "choose another port with --port"
            if error.errno == errno.EADDRINUSE
            else "choose another address with --host"
        )
        raise MachineError(f"{host}:{port}", f"cannot listen ({str(error.strerror).lower()})", remedy) from error
    listening.listen(64)

    hide_torch_from_tvm()

    from tvmake.device.rpc.guarded_tracker import GuardedTracker  # isort: skip

    handler = GuardedTracker(listening)
    ready(listening.getsockname()[1])
    handler.run()


def main(arguments: list[str]) -> None:
    """Run the tracker; see the module's docstring."""
    host, port = arguments
    serve(host, int(port), lambda used: print(f"tracker {host}:{used}", flush=True))


if __name__ == "__main__":
    os.environ.setdefault("TVM_USE_RUNTIME_LIB", "1")
    end_with_starter()
    main(sys.argv[1:])
