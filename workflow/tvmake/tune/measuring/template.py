"""A process with modules loaded, from which workers are forked: ``python -P -m tvmake.tune.measuring.template ROLE FD PARENT``.

Under ``tvmake make`` it is itself forked from a warm server, and has its socket as standard input. It does one thing at a time, as told over an inherited socket: fork a worker that serves on the socket sent along, or
kill a worker and say how it ended. It starts no threads and runs nothing that could crash, so that every fork is whole
and nothing but its own death ends the workers with it. It ends, with all workers and the scratch directory, when the
process that started it does.
"""

import gc
import importlib
import os
import pickle
import resource
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, Protocol

from tvmake.lifeline import die_with
from tvmake.tune.measuring.protocol import FORK, MESSAGE, NUMBER, Failed, Setup, signal_group
from tvmake.tune.measuring.standstill import Still

ROLES = {
    "build": "tvmake.tune.measuring.build_worker:BuildWorker",
    "run": "tvmake.tune.measuring.run_worker:RunWorker",
    "session": "tvmake.tune.measuring.session_worker:SessionWorker",
}
"""What workers can be."""

CHECK_S = 5.0
"""How often to check that the parent lives; its end of the socket closing says so at once, unless a fork holds it too."""

WORKER_OOM_SCORE = 500
"""Makes the kernel choose a worker, not the tuning job, when memory runs out; from -1000 (never) to 1000 (first)."""


class Role(Protocol):
    """What a worker does. Made once, in the template; every fork has its own copy."""

    def answer(self, request: Any) -> Any:
        """Fulfil one request."""
        ...

    def explain(self, error: Exception) -> str:
        """One telling line for what ``answer`` raised."""
        ...


class Template:
    """The loop of the process."""

    def __init__(
        self, control: socket.socket, parent_lives: Callable[[], bool], role: Role, scratch: Path, still: Still | None
    ):
        self.control = control
        self.parent_lives = parent_lives
        self.role = role
        self.scratch = scratch
        self.still = still
        self.workers: set[int] = set()

    def serve(self) -> None:
        """Fork and end workers until the parent is gone."""
        try:
            while self.parent_lives():
                if not self._is_asked():
                    continue
                message, files, _, _ = socket.recv_fds(self.control, MESSAGE, 2)
                if not message:
                    return
                order, rest = message[:1], message[1:]
                result = self._fork(files) if order == FORK else self._end(NUMBER.unpack(rest)[0])
                self.control.sendall(NUMBER.pack(result))
        except ConnectionError:
            return
        finally:
            if self.still is not None:
                self.still.close()
            for worker in list(self.workers):
                self._end(worker)
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _is_asked(self) -> bool:
        """Wait for an order, standing still or not; whether there is one."""
        if self.still is None:
            return bool(select.select([self.control], [], [], CHECK_S)[0])
        patience_s = self.still.patience_s()
        wait_s = CHECK_S if patience_s is None else patience_s
        ready = select.select([self.control, *self.still.files()], [], [], wait_s)[0]
        self.still.look(self.workers)
        return self.control in ready

    def _fork(self, files: list[int]) -> int:
        template = os.getpid()
        # Stopped before it is bound to the template, a worker would outlive it.
        reading, writing = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.close(reading)
            self._become(files, template, writing)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        for file in files:
            os.close(file)
        self.workers.add(worker)
        return worker

    def _end(self, worker: int) -> int:
        """Kill a worker, unless it has ended by itself; returns its exit code, negative for a signal."""
        signal_group(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        self.workers.discard(worker)
        return os.waitstatus_to_exitcode(status)

    def _become(self, files: list[int], template: int, unbound: int) -> NoReturn:
        """In the fork: answer requests until there are no more."""
        code = 1
        try:
            os.setpgid(0, 0)
            die_with(template)
            os.close(unbound)
            self.control.close()
            if self.still is not None:
                self.still.leave()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are nothing out of the ordinary here
            with suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(str(WORKER_OOM_SCORE))
            for number in (1, 2):
                os.dup2(files[1], number)
            connection = Connection(files[0])
            while True:
                try:
                    request = connection.recv()
                except EOFError:
                    break
                connection.send(self._answer(request))
            code = 0
        except BaseException:  # noqa: BLE001  # as the interpreter does at its end
            traceback.print_exc()
        finally:
            os._exit(code)

    def _answer(self, request: Any) -> Any:
        try:
            return self.role.answer(request)
        except Exception as error:  # noqa: BLE001  # a kernel can fail in any way; the worker's caller says what it means
            traceback.print_exc()
            return Failed(self.role.explain(error))


def main(arguments: list[str]) -> int:
    """As a command of a warm server: ``ROLE PARENT``, with the socket as standard input."""
    parent = int(arguments[1])
    control = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    prepare_and_serve(control, lambda: _lives(parent))
    return 0


def _lives(process: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


def prepare_and_serve(control: socket.socket, parent_lives: Callable[[], bool]) -> None:
    """Load what the role needs, say whether that worked, then serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides what it means
    setup: Setup = pickle.loads(control.recv(MESSAGE))
    name, _, kind = ROLES[setup.role].partition(":")
    try:
        role = getattr(importlib.import_module(name), kind)(setup.options)
        _check_alone()
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent has to hear of it
        traceback.print_exc()
        control.sendall(pickle.dumps(f"{type(error).__name__}: {error}"[-MESSAGE // 2 :]))
        return
    # Keeps the garbage collector from copying shared pages by touching every object's header.
    gc.collect()
    gc.freeze()
    with suppress(ConnectionError):  # the parent is gone; serving ends at once
        control.sendall(pickle.dumps(None))
    still = Still(setup.beside, setup.job) if setup.beside is not None else None
    Template(control, parent_lives, role, setup.scratch, still).serve()


def _check_alone() -> None:
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) != 1:
        raise RuntimeError("a library started a thread; workers forked from here could hang")


if __name__ == "__main__":
    starter = int(sys.argv[3])
    prepare_and_serve(socket.socket(fileno=int(sys.argv[2])), lambda: os.getppid() == starter)
