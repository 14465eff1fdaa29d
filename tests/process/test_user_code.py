"""An exception of a user's function becomes one line with its position; a signal still ends the process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tvmake.errors import InputError
from tvmake.process.stopping import is_stopped
from tvmake.process.user_code import ENDING, guard_call, load_function


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), StopIteration(), MemoryError(), SystemExit(0)])
def test_whatever_a_function_raises_is_an_error_of_its_own(error: BaseException):
    assert not is_stopped()
    function = raising(error)
    with pytest.raises(InputError) as caught, guard_call("pass mine:p", "failed", function, "try it in Python"):
        function()
    assert caught.value.problem.startswith(f"failed: {type(error).__name__}")
    assert Path(__file__).name in caught.value.problem
    assert caught.value.remedy == (ENDING if isinstance(error, SystemExit) else "try it in Python")


def test_a_module_whose_import_is_interrupted_by_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "interrupting.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(InputError, match=r"cannot be imported: KeyboardInterrupt \(interrupting.py:1\)"):
        load_function("interrupting:net", "models.net.source")


def test_a_signal_is_not_an_error_of_the_function():
    code = (
        "import os, signal; from tvmake.process.stopping import stoppable; from tvmake.process.user_code import guard_call\n"
        "def mine(): os.kill(os.getpid(), signal.SIGTERM); signal.pause()\n"
        "try:\n"
        "    with stoppable(), guard_call('pass mine:p', 'failed', mine): mine()\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.stdout == "stopped\n", done.stderr


def test_what_a_function_changes_of_its_process_is_as_before_behind_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    here, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)

    def function() -> None:
        os.chdir(tmp_path)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1)
        sys.stdout = None

    with guard_call("pass mine:p", "failed", function):
        function()
    assert (Path.cwd(), signal.getsignal(signal.SIGTERM)) == (here, handler)
    print("heard")
    assert "heard" in capfd.readouterr().out


def test_a_module_that_changes_the_directory_leaves_the_run_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "wandering.py").write_text("import os\nos.chdir('/')\ndef net(): pass\n")
    load_function("wandering:net", "models.net.source")
    assert Path.cwd() == tmp_path
