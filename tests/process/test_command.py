"""tvmake's commands as child processes: their errors arrive as exceptions."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.patience import HANG_S, wait_until
from tvmake.errors import ErrorList, InputError, MachineError, UsageError
from tvmake.process.command import errors_in, run_tvmake

PIPE_BYTES = 65_536

DIGITS = Path("resources/digits.onnx").resolve()


def test_what_a_command_prints_is_returned():
    assert run_tvmake(["--version"]).startswith("tvmake ")


def test_all_of_what_a_command_prints_is_returned_though_a_pipe_would_not_hold_it():
    printed = run_tvmake(["targets", "--json"])
    assert len(printed) > PIPE_BYTES
    assert json.loads(printed)


def test_an_error_has_its_place_its_problem_and_its_remedy(tmp_path: Path):
    with pytest.raises(InputError) as refused:
        run_tvmake(["status", "results"], tmp_path)
    assert (refused.value.where, refused.value.problem) == ("results", "no such summary")
    assert refused.value.remedy and "tvmake make" in refused.value.remedy


def test_a_command_line_that_makes_no_sense_is_its_own_kind_of_error():
    with pytest.raises(UsageError):
        run_tvmake(["make", "--set", "nothing"])


def test_several_mistakes_arrive_together(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(
        "models: {a: {source: a.onnx}}\nbuild: {opt_level: 9}\nbenchmark: {repeat: 0}\n"
    )
    with pytest.raises(ErrorList) as refused:
        run_tvmake(["check"], tmp_path, shows_progress=False)
    assert len(refused.value.errors) == 2


def test_progress_is_passed_on_if_wanted(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for shows in (True, False):
        with pytest.raises(InputError):
            run_tvmake(["status", "results"], tmp_path, shows_progress=shows)
        assert ("no such summary" in capfd.readouterr().err) is shows


def test_errors_below_a_job_are_found_with_their_remedies_and_nothing_behind_them():
    lines = ["✓ import a", "✗ build a", "  error: targets.t: no g++", "    install it", "  log: logs/a", "error: b"]
    first, second = errors_in(lines, MachineError)
    assert (first.where, first.problem, first.remedy) == ("targets.t", "no g++", "install it")
    assert (second.where, second.problem, second.remedy) == ("", "b", None)


WAITING = """
import os, pathlib, time

def wait():
    pathlib.Path("started").write_text(str(os.getpid()))
    time.sleep(100_000)
"""


def test_an_interrupt_of_this_process_alone_ends_the_command_with_its_running_jobs(tmp_path: Path):
    shutil.copy(DIGITS, tmp_path / "digits.onnx")
    (tmp_path / "waiting.py").write_text(WAITING)
    (tmp_path / "tvmake.yaml").write_text(
        "models: {digits: {source: digits.onnx}}\ntransform: {passes: [{use: 'waiting:wait', at: start}]}\n"
    )
    script = "from tvmake.process.command import run_tvmake; run_tvmake(['make'])"
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        started = tmp_path / "started"
        job = wait_until(lambda: (started.exists() and started.read_text()) or process.poll() is not None)
        process.send_signal(signal.SIGINT)  # as a notebook's server does, not a terminal
        _, said = process.communicate(timeout=HANG_S)
    assert "KeyboardInterrupt" in said
    assert not psutil.pid_exists(int(job))
