"""Workers: whatever becomes of one, whoever waits for its answer learns of it in time."""

import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest

from tests.patience import HANG_S
from tvmake.process.supervised import ChildProcess
from tvmake.process.worker import Worker, WorkerEnded, WorkerTimeout

PROGRAM = """
import os, sys, time
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
while True:
    request = connection.recv()
    if request == "hang":
        time.sleep(3600)
    if request == "crash":
        print("a first line", file=sys.stderr)
        print("the last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 11)
    if isinstance(request, int):
        print("an error", file=sys.stderr)
        sys.exit(request)
    connection.send(request.upper())
"""


@contextmanager
def worker(grace_s: float = 0.0) -> Iterator[Worker]:
    import sys

    ours, theirs = socket.socketpair()
    output = tempfile.TemporaryFile()  # noqa: SIM115
    with theirs:
        process = ChildProcess(
            [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
        )
    with Worker(Connection(ours.detach()), output, process.end, grace_s=grace_s) as started:
        yield started
    assert process.code is not None


def test_requests_are_answered_one_by_one():
    with worker() as asked:
        assert [asked.ask(request, HANG_S) for request in ("a", "b")] == ["A", "B"]


def test_a_worker_that_hangs_is_killed():
    with worker() as asked:
        assert asked.ask("a", HANG_S) == "A"
        with pytest.raises(WorkerTimeout):
            asked.ask("hang", 0.2)
        assert asked.kill() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("request_", "code", "line", "description"),
    [
        ("crash", -signal.SIGSEGV, "it crashed with SIGSEGV: the last words", "ended with SIGSEGV: the last words"),
        (3, 3, "it ended with code 3: an error", "ended with code 3: an error"),
    ],
)
def test_a_worker_that_ends_is_reported_with_its_last_words(request_: object, code: int, line: str, description: str):
    with worker() as asked:
        with pytest.raises(WorkerEnded) as ended:
            asked.ask(request_, HANG_S)
        assert ended.value.code == code
        assert ended.value.line("it") == line
        assert ended.value.description == description
        with pytest.raises(WorkerEnded):
            asked.ask("a", HANG_S)


def test_what_ended_with_the_process_that_it_was_forked_from_is_not_to_blame():
    assert WorkerEnded(None, "").line("it") == "it was ended with the process it was forked from"
    assert WorkerEnded(-signal.SIGKILL, "").line("it") == "it was ended by SIGKILL (out of memory?)"


def test_time_by_a_clock_that_stands_still_does_not_count():
    times: Iterator[float] = iter([0.0, 0.0, 0.0, 0.0])
    clock: Callable[[], float] = lambda: next(times, 100.0)  # noqa: E731
    with worker() as asked:
        assert asked.ask("a", 0.01 + 100, clock) == "A"
