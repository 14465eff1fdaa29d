"""Starts warm servers when a first step asks for one, for as long as a ``tvmake make`` works."""

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.warm.client import DIRECTORY, PARENT, socket_path
from tvmake.warm.entries import ENVIRONMENT, PRELOADED

LONGEST_PATH = 100
"""A Unix socket's path may have 107 bytes."""

IDLE_S = 60.0
"""A server with nothing to do for this long ends, and its memory is free; another starts when it is wanted."""

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")}
"""As Snakemake sets for jobs of one thread; numerical libraries read these when they load."""


@contextmanager
def warm_servers(idle_s: float = IDLE_S) -> Iterator[None]:
    """Let the steps started inside this block be forked from servers that have TVM or torch loaded.

    A run inside another one, or inside a program that has servers, uses those that are there.
    Linux only: elsewhere a fork after loading system frameworks is not safe, and steps run by themselves.
    """
    if os.environ.get(DIRECTORY):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tvmake-warm-") as directory:
        longest = max(len(os.fsencode(socket_path(directory, kind))) for kind in PRELOADED)
        if sys.platform != "linux" or longest > LONGEST_PATH:
            yield
            return
        pool = Pool(directory, idle_s)
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
    """Listening sockets, and the servers that were started to serve them."""

    def __init__(self, directory: str, idle_s: float):
        self.directory = directory
        self.idle_s = idle_s
        self.selector = selectors.DefaultSelector()
        self.listeners: dict[str, socket.socket] = {}
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.stop, self.stopped = socket.socketpair()
        for kind in PRELOADED:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(socket_path(directory, kind))
            listener.listen(128)
            self.listeners[kind] = listener
            self.selector.register(listener, selectors.EVENT_READ, kind)
        self.selector.register(self.stopped, selectors.EVENT_READ, None)
        # Servers die with the thread that starts them, so it lasts as long as the pool.
        self.thread = threading.Thread(target=self._watch, name="tvmake-warm", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End the servers."""
        self.stop.close()
        self.thread.join()
        for server in self.servers.values():
            server.kill()
            server.wait()
        for open_ in (self.selector, self.stopped, *self.listeners.values()):
            open_.close()

    def _watch(self) -> None:
        while True:
            for key, _ in self.selector.select(1.0 if self.servers else None):
                if key.data is None:
                    return
                self._start(key.data)
            for kind, server in list(self.servers.items()):
                if server.poll() is not None:
                    del self.servers[kind]
                    self._ended(kind, server.returncode)

    def _start(self, kind: str) -> None:
        listener = self.listeners[kind]
        # The server accepts from now on; a connection left over when it ends makes this socket readable again.
        self.selector.unregister(listener)
        command = [sys.executable, "-P", "-m", "tvmake.warm.server", kind, str(listener.fileno()), str(self.idle_s)]
        environment = {**os.environ, **ONE_THREAD, **ENVIRONMENT[kind], PARENT: str(os.getpid())}
        with (Path(self.directory) / f"{kind}.log").open("wb") as log:
            self.servers[kind] = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _ended(self, kind: str, code: int) -> None:
        if code == 0:
            self.selector.register(self.listeners[kind], selectors.EVENT_READ, kind)
            return
        # It could not load its modules, or was killed. Steps that wait are turned away and run by themselves.
        Path(socket_path(self.directory, kind)).unlink(missing_ok=True)
        self.listeners.pop(kind).close()
