"""A command handed over to a warm process: to its caller it looks like the command itself."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.process.conftest import Warm
from tests.workflow.faults import is_running


def written(path: Path) -> str:
    """A file's text, once it has any."""
    wait_until(lambda: path.is_file() and path.read_text() != "")
    return path.read_text()


def test_the_command_sees_the_callers_arguments_directory_environment_and_files(warm: Warm, tmp_path: Path):
    environment = {**warm.environment, "ONLY_HERE": "ä", "EMPTY": ""}
    with (tmp_path / "in").open("w+") as given:
        given.write("from stdin")
        given.seek(0)
        client = warm.client("tell", "--x", "a b", stdin=given, cwd=tmp_path, env=environment)
        out, err = client.communicate(timeout=HANG_S)
    first, rest = out.split("\n", 1)
    seen = json.loads(first)
    assert seen["argv"] == ["tvmake", "tell", "--x", "a b"]
    assert seen["cwd"] == str(tmp_path)
    assert seen["env"] == environment
    assert seen["pid"] != client.pid
    assert rest == "from stdin"
    assert err == "to stderr\n"
    assert client.returncode == 0


def test_the_exit_code_is_the_commands(warm: Warm):
    assert warm.client("exit", "4").wait(HANG_S) == 4
    assert warm.client("exit", "0").wait(HANG_S) == 0


def test_an_exception_is_a_traceback_and_1_as_in_any_process(warm: Warm):
    client = warm.client("raise")
    _, err = client.communicate(timeout=HANG_S)
    assert client.returncode == 1
    assert err.rstrip().endswith("ValueError: as asked")


def test_a_crash_ends_the_caller_by_the_same_signal_and_the_server_serves_on(warm: Warm):
    for number in (signal.SIGSEGV, signal.SIGKILL):
        assert warm.client("crash", str(number.value)).wait(HANG_S) == -number
    assert warm.client("exit", "0").wait(HANG_S) == 0


def test_a_signal_reaches_the_command(warm: Warm, tmp_path: Path):
    client = warm.client("wait", str(tmp_path / "pid"))
    written(tmp_path / "pid")
    client.terminate()
    assert client.wait(HANG_S) == 3
    assert (tmp_path / "pid").read_text() == f"signal {signal.SIGTERM:d}"


def test_a_killed_caller_takes_the_command_with_it(warm: Warm, tmp_path: Path):
    client = warm.client("wait", str(tmp_path / "pid"))
    command = int(written(tmp_path / "pid"))
    assert is_running(command)
    client.kill()
    client.wait()
    wait_until(lambda: not is_running(command))
    assert warm.client("exit", "0").wait(HANG_S) == 0


def test_a_killed_server_takes_its_commands_with_it_and_the_caller_says_so(warm: Warm, tmp_path: Path):
    client = warm.client("wait", str(tmp_path / "pid"))
    command = int(written(tmp_path / "pid"))
    assert warm.client("exit", "0").wait(HANG_S) == 0  # the server answers in order: the first command has started
    warm.server.kill()
    _, err = client.communicate(timeout=HANG_S)
    assert client.returncode == 128 + signal.SIGKILL
    assert err.startswith("error: the process that ran this step was killed")
    wait_until(lambda: not is_running(command))


def test_commands_run_side_by_side(warm: Warm, tmp_path: Path):
    waiting = [warm.client("wait", str(tmp_path / str(number))) for number in range(3)]
    commands = {int(written(tmp_path / str(number))) for number in range(3)}
    assert len(commands) == 3
    assert warm.client("exit", "0").wait(HANG_S) == 0
    for client in waiting:
        client.kill()
        client.wait()


def test_without_a_server_nothing_is_handed_over(warm: Warm, tmp_path: Path):
    for directory in (str(tmp_path), ""):
        client = warm.client("exit", "0", env={**os.environ, "TVMAKE_WARM": directory})
        _, err = client.communicate(timeout=HANG_S)
        assert err == "nothing was handed over\n"


def test_a_caller_that_dies_before_its_request_is_complete_harms_nothing(warm: Warm):
    import socket

    from tvmake.process.forkserver.client import LENGTH, socket_path

    path = socket_path(warm.environment["TVMAKE_WARM"], "probe")
    for start in (b"", b"\0", LENGTH.pack(1000) + b"{"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            connection.sendall(start)
    assert warm.client("exit", "0").wait(HANG_S) == 0


def test_a_step_that_waits_ends_with_a_run_that_is_killed(warm: Warm):
    # The path stays, and nobody listens: its owner had no time to remove it.
    os.kill(warm.server.pid, signal.SIGSTOP)
    client = warm.client("exit", "0")
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(2)
    warm.server.kill()
    _, err = client.communicate(timeout=HANG_S)
    assert client.returncode == 128 + signal.SIGKILL
    assert err == "error: the run that this step belongs to was killed\n"


@pytest.mark.parametrize("warm", ["tests.process.one_fork"], indirect=True)
def test_a_server_that_may_fork_no_more_turns_callers_away_and_its_command_continues(warm: Warm, tmp_path: Path):
    running = warm.client("wait", str(tmp_path / "pid"))
    command = int(written(tmp_path / "pid"))
    _, err = warm.client("exit", "0").communicate(timeout=HANG_S)
    assert err == "nothing was handed over\n"
    assert is_running(command)
    running.terminate()
    running.communicate(timeout=HANG_S)
    assert running.returncode == 3
