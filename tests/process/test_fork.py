"""Forks: what they do reaches their parent as an exit code, and they end with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.workflow.faults import is_running
from tvmake.process.fork import fork, run_forked, signal_group

FORKING = """
import os, sys, time
from tvmake.process.fork import fork
print(fork(lambda: time.sleep(3600), leads="session", is_bound=sys.argv[1] == "bound"), flush=True)
time.sleep(3600)
"""


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda: None, 0),
        (lambda: 3, 3),
        (lambda: sys.exit(4), 4),
        (lambda: sys.exit("no number"), 1),
        (lambda: raising(KeyboardInterrupt()), 130),
        (lambda: raising(ValueError("as a test wants")), 1),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL),
    ],
)
def test_a_forks_exit_code_is_that_of_a_process_which_does_the_same(work, code: int):
    assert exit_code(fork(work)) == code


def test_what_a_fork_writes_is_written_once(capfd: pytest.CaptureFixture[str]):
    print("before", end=" ")
    assert exit_code(fork(lambda: print("inside"))) == 0
    assert capfd.readouterr().out == "before inside\n"


def test_a_forks_exit_runs_no_exit_handlers_of_its_parent(tmp_path: Path):
    code = f"""
import atexit, os
from pathlib import Path
from tvmake.process.fork import fork
atexit.register(lambda: Path({str(tmp_path)!r}, str(os.getpid())).touch())
os.waitpid(fork(lambda: 0), 0)
print(os.getpid())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [path.name for path in tmp_path.iterdir()] == [done.stdout.strip()]


def test_a_leader_can_be_signalled_with_all_that_it_starts_as_soon_as_it_is_there(tmp_path: Path):
    def work() -> None:
        process = subprocess.Popen(["sleep", "3600"])
        (tmp_path / "pid").write_text(str(process.pid))
        process.wait()

    leader = fork(work, leads="group")
    assert os.getpgid(leader) == leader
    started = int(wait_until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()))
    signal_group(leader, signal.SIGKILL)
    assert exit_code(leader) == -signal.SIGKILL
    wait_until(lambda: not is_running(started))
    signal_group(leader, signal.SIGKILL)  # nothing happens


@pytest.mark.parametrize("binding", ["bound", "free"])
def test_a_bound_fork_ends_with_its_parent_and_another_does_not(binding: str):
    parent = subprocess.Popen([sys.executable, "-c", FORKING, binding], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()  # not for the end of its output: the child holds the pipe open as well
    parent.stdout.close()
    if binding == "bound":
        wait_until(lambda: not is_running(child))
    else:
        assert is_running(child)
        os.kill(child, signal.SIGKILL)


def test_signals_are_forwarded_and_what_was_used_is_reported(tmp_path: Path):
    code = f"""
import os, signal, sys, time
from pathlib import Path
from tvmake.process.fork import run_forked
def work():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    Path({str(tmp_path / "ready")!r}).touch()
    time.sleep(3600)
code, usage = run_forked(work)
print(usage.ru_maxrss > 0)
sys.exit(code)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    wait_until((tmp_path / "ready").exists)
    process.terminate()
    assert process.communicate()[0] == "True\n"
    assert process.returncode == 5


def test_a_signal_that_comes_as_the_work_begins_is_forwarded():
    code = """
import os, signal, sys, time
from tvmake.process.fork import run_forked
def work():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(3600)
sys.exit(run_forked(work)[0])
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 5


def test_handlers_are_as_before_once_a_fork_has_ended():
    before = signal.getsignal(signal.SIGTERM)
    assert run_forked(lambda: 7)[0] == 7
    assert signal.getsignal(signal.SIGTERM) is before


def test_forks_are_quick_although_another_ones_work_continues():
    sleeping = fork(lambda: time.sleep(3600))
    assert exit_code(fork(lambda: 0)) == 0
    os.kill(sleeping, signal.SIGKILL)
    assert exit_code(sleeping) == -signal.SIGKILL
