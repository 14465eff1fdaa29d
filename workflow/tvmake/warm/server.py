"""A process with modules loaded, from which commands are forked: ``python -P -m tvmake.warm.server KIND LISTENING_FD IDLE_S``.

One connection is one command: the client sends it, gets ``+`` when it has started and its status when it has ended.
A byte from the client is a signal to pass on; its end of the connection closing means that the client was killed, and
the command is killed as well. Commands die with the server, and the server with the process that started it. A command
that ``stays`` is only started: the client gets ``+`` and its number, and it has to end by itself.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from tvmake.lifeline import die_with
from tvmake.warm.client import LENGTH, PARENT, STARTED, STATUS
from tvmake.warm.entries import PRELOADED, run


class Server:
    """Forks one process per connection; single-threaded, so that a fork is whole."""

    def __init__(self, listener: socket.socket, idle_s: float):
        self.listener = listener
        self.idle_s = idle_s
        self.selector = selectors.DefaultSelector()
        self.commands: dict[int, socket.socket | None] = {}
        """Running processes and the connections their status goes to."""
        self.wake, wakened = socket.socketpair()
        for end in (self.wake, wakened):
            end.setblocking(False)
        self.wakened = wakened
        signal.set_wakeup_fd(wakened.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve until nothing has been asked for ``idle_s`` seconds."""
        while True:
            events = self.selector.select(None if self.commands else self.idle_s)
            if not events and not self.commands:
                return
            for key, _ in events:
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.wake:
                    with suppress(BlockingIOError):
                        self.wake.recv(4096)
                else:
                    self._heard(key.fileobj, key.data)  # type: ignore[arg-type]
            self._reap()

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return
        connection.setblocking(True)
        try:
            request, files = _receive(connection)
        except (OSError, EOFError, ValueError):  # the client was killed
            connection.close()
            return
        server = os.getpid()
        child = os.fork()
        if child == 0:
            self._become(request, files, connection, server)
        for file in files:
            os.close(file)
        if request["stays"]:
            self.commands[child] = None
            with suppress(OSError), connection:
                connection.sendall(STARTED + STATUS.pack(child))
            return
        self.commands[child] = connection
        self.selector.register(connection, selectors.EVENT_READ, child)
        with suppress(OSError):
            connection.sendall(STARTED)

    def _heard(self, connection: socket.socket, child: int) -> None:
        try:
            said = connection.recv(16)
        except OSError:
            said = b""
        if not said:
            self._forget(child)
            _kill(child)
        for number in said:
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

    def _become(self, request: dict[str, Any], files: list[int], connection: socket.socket, server: int) -> NoReturn:
        """In the fork: be the client's process in all that a command can see."""
        code = 70
        try:
            os.setsid()
            if not request["stays"]:
                die_with(server)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for open_ in (connection, self.listener, self.wake, self.wakened, *filter(None, self.commands.values())):
                open_.close()
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
            code = run(request["entry"], request["arguments"])
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except BaseException:  # noqa: BLE001  # as the interpreter does at its end
            traceback.print_exc()
            code = 1
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, files, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    try:
        while len(head) < LENGTH.size:
            head += _part(connection, LENGTH.size - len(head))
        (length,) = LENGTH.unpack(head)
        text = b""
        while len(text) < length:
            text += _part(connection, length - len(text))
        return json.loads(text), files
    except BaseException:
        for file in files:
            os.close(file)
        raise


def _part(connection: socket.socket, size: int) -> bytes:
    part = connection.recv(size)
    if not part:
        raise EOFError
    return part


def _kill(child: int) -> None:
    # The fork makes itself the leader of a session first of all; until then it is alone.
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
            return


def main(kind: str, descriptor: int, idle_s: float) -> None:
    """Load the modules of this kind, then serve on an inherited listening socket."""
    die_with(int(os.environ.pop(PARENT)))
    for module in PRELOADED[kind]:
        importlib.import_module(module)
    # Keeps the garbage collector from copying shared pages by touching every object's header.
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    Server(listener, idle_s).serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
