"""A process with modules loaded, from which commands are forked:
``python -P -m tvmake.process.forkserver.server KIND LISTENING_FD IDLE_S MODULES``.

A connection runs one command. The client sends the command, and gets ``+`` when it has started and its status when it has
ended. A byte from the client is a signal to forward. If the client closes its end, it was killed, and the command is killed
too. Commands end with the server, and the server with its starter. A detached command is only started: the client gets
``+`` and its process number, and the command ends by itself.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tvmake.process.fork import fork, signal_group
from tvmake.process.forkserver.client import LENGTH, STARTED, STATUS, run_entry
from tvmake.process.forkserver.preload import freeze_memory, load
from tvmake.process.parent_death import end_with_starter

PAUSE_S = 0.1
"""Delay between tries to accept a connection when there are too many open files."""


class Server:
    """Forks one process per connection; single-threaded, so that forks are safe."""

    def __init__(self, listener: socket.socket, idle_s: float):
        self.listener = listener
        self.idle_s = idle_s
        self.selector = selectors.DefaultSelector()
        self.commands: dict[int, socket.socket | None] = {}
        """Running processes, with the connections for their status."""
        # The interpreter writes to it at each signal, so that the end of a child ends a wait.
        self.signal_reader, self.signal_writer = socket.socketpair()
        for end in (self.signal_reader, self.signal_writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self.signal_writer.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.signal_reader, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve until there was no request for ``idle_s`` seconds."""
        while True:
            events = self.selector.select(None if self.commands else self.idle_s)
            if not events and not self.commands:
                return
            for key, _ in events:
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.signal_reader:
                    with suppress(BlockingIOError):
                        self.signal_reader.recv(4096)
                else:
                    self._forward(key.fileobj, key.data)  # type: ignore[arg-type]
            self._reap()

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError:  # too many open files
            if not self.commands:
                raise
            time.sleep(PAUSE_S)  # until a command ends
            return
        connection.setblocking(True)
        try:
            request, files = _receive(connection)
        except (OSError, EOFError, ValueError):  # the client was killed
            connection.close()
            return
        is_detached = request["is_detached"]
        try:
            child = fork(lambda: self._become(request, files, connection), leads="session", is_bound=not is_detached)
        except OSError:  # too many processes: the client runs its command itself, and running commands continue
            connection.close()
            return
        finally:
            for file in files:
                os.close(file)
        if is_detached:
            self.commands[child] = None
            with suppress(OSError), connection:
                connection.sendall(STARTED + STATUS.pack(child))
            return
        self.commands[child] = connection
        self.selector.register(connection, selectors.EVENT_READ, child)
        with suppress(OSError):
            connection.sendall(STARTED)

    def _forward(self, connection: socket.socket, child: int) -> None:
        try:
            signals = connection.recv(16)
        except OSError:
            signals = b""
        if not signals:
            self._forget(child)
            signal_group(child, signal.SIGKILL)
        for number in signals:
            with suppress(ProcessLookupError):
                os.kill(child, number)

    def _reap(self) -> None:
        while self.commands:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            connection = self.commands.get(child)
            if connection is not None:
                with suppress(OSError):
                    connection.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))
                self._forget(child)
            self.commands.pop(child, None)

    def _forget(self, child: int) -> None:
        connection = self.commands[child]
        if connection is not None:
            self.selector.unregister(connection)
            connection.close()
        self.commands[child] = None

    def _become(self, request: dict[str, Any], files: list[int], connection: socket.socket) -> int:
        """In the fork: take over the client's directory, environment, files and arguments."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        connections = [connection for connection in self.commands.values() if connection is not None]
        for end in (connection, self.listener, self.signal_reader, self.signal_writer, *connections):
            end.close()
        self.selector.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdout = open(1, "w", closefd=False, buffering=1, encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        sys.argv = ["tvmake", *request["arguments"]]
        return run_entry(request["entry"], request["arguments"])


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, files, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    try:
        header += _read(connection, LENGTH.size - len(header))
        (length,) = LENGTH.unpack(header)
        return json.loads(_read(connection, length)), files
    except BaseException:
        for file in files:
            os.close(file)
        raise


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise EOFError
        content += part
    return content


def main(descriptor: int, idle_s: float, modules: Sequence[str]) -> None:
    """Load modules, then serve on an inherited listening socket."""
    end_with_starter()
    load(modules)
    freeze_memory()
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    Server(listener, idle_s).serve()


if __name__ == "__main__":
    main(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
