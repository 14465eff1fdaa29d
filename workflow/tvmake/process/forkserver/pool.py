"""Start fork servers on the first request, for the duration of a ``tvmake make``."""

import os
import selectors
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvmake.process.forkserver.client import DIRECTORY, socket_path
from tvmake.process.forkserver.preload import Preload
from tvmake.process.parent_death import bound_environment
from tvmake.process.python import python_command
from tvmake.process.supervised import ChildProcess
from tvmake.storage.temporary import locked_directory

LONGEST_PATH = 100
"""The path of a Unix socket may have 107 bytes."""

IDLE_S = 60.0
"""A server that is idle for this long ends to free its memory; the next request starts another."""

POLL_S = 1.0
"""How often to check whether a server has ended."""

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")}
"""The variables that Snakemake sets for jobs of one thread; numerical libraries read them when they load."""


@contextmanager
def warm_servers(kinds: Mapping[str, Preload], idle_s: float = IDLE_S) -> Iterator[None]:
    """Fork the steps started inside this block from servers that have modules loaded.

    A run inside another run, or inside a program with servers, uses the existing servers. Linux only: elsewhere, a fork
    after loading system frameworks is not safe, and steps run in their own processes.

    Args:
        kinds: the modules of each kind of server.
        idle_s: an idle server ends after this time.
    """
    if os.environ.get(DIRECTORY):
        yield
        return
    with locked_directory(Path(tempfile.gettempdir()), "tvmake-warm-") as sockets:
        directory = str(sockets)
        longest = max(len(os.fsencode(socket_path(directory, kind))) for kind in kinds)
        if sys.platform != "linux" or longest > LONGEST_PATH:
            yield
            return
        pool = Pool(directory, kinds, idle_s)
        os.environ[DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[DIRECTORY]
            pool.close()


@contextmanager
def no_warm_servers() -> Iterator[None]:
    """Run the steps started inside this block in their own processes, even if servers exist."""
    outer = os.environ.pop(DIRECTORY, None)
    try:
        yield
    finally:
        if outer is not None:
            os.environ[DIRECTORY] = outer


class Pool:
    """Listening sockets and their servers; for the arguments see :func:`warm_servers`."""

    def __init__(self, directory: str, kinds: Mapping[str, Preload], idle_s: float):
        self._directory = directory
        self._kinds = kinds
        self._idle_s = idle_s
        self._selector = selectors.DefaultSelector()
        self._listeners: dict[str, socket.socket] = {}
        self._servers: dict[str, ChildProcess] = {}
        self._stop, self._stopped = socket.socketpair()
        for kind in kinds:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(socket_path(directory, kind))
            listener.listen(128)
            self._listeners[kind] = listener
            self._selector.register(listener, selectors.EVENT_READ, kind)
        self._selector.register(self._stopped, selectors.EVENT_READ, None)
        # Servers end with the thread that starts them, so this thread lasts as long as the pool.
        self._thread = threading.Thread(target=self._watch, name="tvmake-warm", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the servers."""
        self._stop.close()
        self._thread.join()
        for server in self._servers.values():
            server.close()
        self._selector.close()
        for end in (self._stopped, *self._listeners.values()):
            end.close()

    def _watch(self) -> None:
        while True:
            for key, _ in self._selector.select(POLL_S if self._servers else None):
                if key.data is None:
                    return
                self._start(key.data)
            for kind, server in list(self._servers.items()):
                if server.code is not None:
                    del self._servers[kind]
                    self._handle_end(kind, server.code)

    def _start(self, kind: str) -> None:
        listener, preload = self._listeners[kind], self._kinds[kind]
        # From now on the server accepts. If it ends with a connection pending, this socket becomes readable again.
        self._selector.unregister(listener)
        command = python_command("-m", "tvmake.process.forkserver.server", kind)
        command += [str(listener.fileno()), str(self._idle_s), *preload.modules]
        try:
            with (Path(self._directory) / f"{kind}.log").open("wb") as log:
                self._servers[kind] = ChildProcess(
                    command,
                    bound_environment({**os.environ, **ONE_THREAD, **preload.environment}),
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                )
        except OSError:  # too many files or processes, or no space for its log
            self._refuse(kind)

    def _handle_end(self, kind: str, code: int) -> None:
        if code == 0:
            self._selector.register(self._listeners[kind], selectors.EVENT_READ, kind)
        else:  # it could not load its modules, or was killed
            self._refuse(kind)

    def _refuse(self, kind: str) -> None:
        """Make steps that use a server of this kind run in their own processes, now and later."""
        Path(socket_path(self._directory, kind)).unlink(missing_ok=True)
        self._listeners.pop(kind).close()
