"""Start fork servers when a first step asks for one, for as long as a ``tvmake make`` works."""

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
from tvmake.storage.temporary import held_directory

LONGEST_PATH = 100
"""A Unix socket's path may have 107 bytes."""

IDLE_S = 60.0
"""A server with nothing to do for this long ends, and its memory is free; another starts when it is wanted."""

POLL_S = 1.0
"""How often to check whether a server has ended."""

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")}
"""As Snakemake sets for jobs of one thread; numerical libraries read these when they load."""


@contextmanager
def warm_servers(kinds: Mapping[str, Preload], idle_s: float = IDLE_S) -> Iterator[None]:
    """Let the steps started inside this block be forked from servers that have modules loaded.

    A run inside another one, or inside a program that has servers, uses those that are there.
    Linux only: elsewhere a fork after loading system frameworks is not safe, and steps run by themselves.

    Args:
        kinds: what each kind of server loads.
        idle_s: after which a server with nothing to do ends.
    """
    if os.environ.get(DIRECTORY):
        yield
        return
    with held_directory(Path(tempfile.gettempdir()), "tvmake-warm-") as place:
        directory = str(place)
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
    """Let the steps started inside this block run by themselves, whatever servers there are around it."""
    outer = os.environ.pop(DIRECTORY, None)
    try:
        yield
    finally:
        if outer is not None:
            os.environ[DIRECTORY] = outer


class Pool:
    """Listening sockets, and the servers that were started to serve them; for the arguments see :func:`warm_servers`."""

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
        # Servers end with the thread that starts them, so it lasts as long as the pool.
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
                    self._has_ended(kind, server.code)

    def _start(self, kind: str) -> None:
        listener, preload = self._listeners[kind], self._kinds[kind]
        # The server accepts from now on; a connection left over when it ends makes this socket readable again.
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
        except OSError:  # no more files or processes, or no room for its log
            self._turn_away(kind)

    def _has_ended(self, kind: str, code: int) -> None:
        if code == 0:
            self._selector.register(self._listeners[kind], selectors.EVENT_READ, kind)
        else:  # it could not load its modules, or was killed
            self._turn_away(kind)

    def _turn_away(self, kind: str) -> None:
        """Have the steps that wait for a server of this kind run by themselves, and those to come."""
        Path(socket_path(self._directory, kind)).unlink(missing_ok=True)
        self._listeners.pop(kind).close()
