"""Programs with a deadline: they and all that they started are gone afterwards, and what they wrote is kept."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.workflow.faults import is_running
from tvmake.process.supervised import ChildProcess, exit_description, last_line, run_supervised

WITH_CHILD = 'sleep 3600 & echo $! > "$0"; '


def number_in(path: Path) -> int:
    return int(wait_until(lambda: path.is_file() and path.read_text().strip()))


def test_a_program_that_ends_gives_its_code_and_its_output():
    done = run_supervised(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], HANG_S)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_program_reads_nothing():
    assert run_supervised(["cat"], HANG_S).stdout == ""


def test_a_program_without_end_is_killed_with_all_it_started_and_its_output_is_kept(tmp_path: Path):
    command = ["/bin/sh", "-c", WITH_CHILD + "echo so far; wait", str(tmp_path / "pid")]
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run_supervised(command, 2)
    assert late.value.stdout == "so far\n"
    wait_until(lambda: not is_running(number_in(tmp_path / "pid")))


def test_an_interrupted_wait_leaves_no_program_behind(tmp_path: Path):
    code = f"""
from tvmake.process.supervised import run_supervised
run_supervised(["/bin/sh", "-c", {WITH_CHILD + "wait"!r}, {str(tmp_path / "pid")!r}], 3600)
"""
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    program = number_in(tmp_path / "pid")
    caller.send_signal(signal.SIGINT)
    caller.wait(HANG_S)
    wait_until(lambda: not is_running(program))


@pytest.mark.parametrize("attempt", range(10))
def test_an_interrupt_while_a_program_starts_leaves_no_program_behind(tmp_path: Path, attempt: int):
    at_once = f"{WITH_CHILD}kill -INT $PPID; wait"
    code = f"""
from tvmake.process.supervised import ChildProcess
with ChildProcess(["/bin/sh", "-c", {at_once!r}, {str(tmp_path / "pid")!r}]) as process:
    process.wait()
"""
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False, timeout=HANG_S)
    wait_until(lambda: not is_running(number_in(tmp_path / "pid")))


def test_a_child_process_ends_with_its_block_with_all_it_started(tmp_path: Path):
    with ChildProcess(["/bin/sh", "-c", WITH_CHILD + "wait", str(tmp_path / "pid")]) as process:
        started = number_in(tmp_path / "pid")
        assert process.code is None
        assert not process.wait(0)
    assert process.code == -signal.SIGKILL
    wait_until(lambda: not is_running(started))


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path):
    with ChildProcess(["/bin/sh", "-c", WITH_CHILD + "exit 4", str(tmp_path / "pid")]) as process:
        assert process.wait(HANG_S)
        assert process.code == 4
    wait_until(lambda: not is_running(number_in(tmp_path / "pid")))
    assert process.code == 4


def test_a_line_is_read_or_missed_in_time():
    with ChildProcess(["/bin/sh", "-c", "echo first; sleep 3600"], stdout=subprocess.PIPE) as process:
        assert process.read_line(HANG_S) == "first\n"
        assert process.read_line(0.1) == ""


def test_how_a_process_ended_is_reported_in_words():
    assert exit_description(3) == "ended with code 3"
    assert exit_description(-signal.SIGSEGV) == "ended with SIGSEGV"


def test_the_last_line_is_the_last_that_is_not_blank():
    assert last_line("one\n two \n\n") == "two"
    assert last_line("\n") == ""
