"""The pool: servers on demand, none left behind, and steps that manage without one."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.workflow.faults import is_running
from tvmake.process.forkserver import pool
from tvmake.process.forkserver.client import DIRECTORY, hand_over, socket_path
from tvmake.process.forkserver.pool import no_warm_servers, warm_servers
from tvmake.process.forkserver.preload import Preload
from tvmake.stages.preload import PRELOADS

LIGHT = {"compiler": Preload(("tvmake.cli.app",))}
"""A server that starts in a moment, for tests whose subject is not what it loads."""

STEP = [sys.executable, "-c", "from tvmake.cli import main; main()", "step", "export", "--help"]


def servers() -> dict[int, str]:
    """This process's servers of the kinds that runs use, by process; tests of OpenCL keep one of their own."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines() if "tvmake.process.forkserver.server" in line]
    kinds = {int(row[0]): row[row.index("tvmake.process.forkserver.server") + 1] for row in rows}
    return {process: kind for process, kind in kinds.items() if kind in PRELOADS}


def step() -> str:
    """Run a step's help; its output."""
    done = subprocess.run(STEP, capture_output=True, text=True, timeout=HANG_S, check=True)
    return done.stdout


def test_a_server_starts_when_a_step_asks_and_ends_with_the_pool():
    with warm_servers(LIGHT):
        directory = Path(os.environ[DIRECTORY])
        assert directory.stat().st_mode & 0o077 == 0
        assert servers() == {}
        assert "Put library" in step()
        ((server, kind),) = servers().items()
        assert kind == "compiler"
        step()
        assert list(servers()) == [server]
    assert not is_running(server)
    assert not directory.exists()
    assert DIRECTORY not in os.environ


def test_a_run_inside_another_one_uses_the_servers_that_are_there():
    with warm_servers(LIGHT):
        directory = os.environ[DIRECTORY]
        step()
        before = servers()
        with warm_servers(LIGHT):
            assert os.environ[DIRECTORY] == directory
            step()
        assert servers() == before != {}
        assert os.environ[DIRECTORY] == directory


def test_a_run_that_wants_no_servers_uses_none_around_it_either():
    with warm_servers(LIGHT):
        directory = os.environ[DIRECTORY]
        with no_warm_servers():
            assert "Put library" in step()
            assert servers() == {}
        assert os.environ[DIRECTORY] == directory


def test_an_idle_server_ends_and_the_next_step_starts_another():
    with warm_servers(LIGHT, idle_s=0.2):
        step()
        (first,) = servers() or [None]
        wait_until(lambda: servers() == {})
        assert "Put library" in step()
        assert first not in servers()


def test_steps_run_by_themselves_once_a_server_was_killed():
    with warm_servers(LIGHT):
        step()
        (server,) = servers()
        os.kill(server, 9)
        wait_until(lambda: not Path(socket_path(os.environ[DIRECTORY], "compiler")).exists())
        assert "Put library" in step()
        assert servers() == {}


def test_a_server_that_cannot_load_its_modules_keeps_no_step_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tvm.py").write_text("raise ImportError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with warm_servers(PRELOADS):
        assert "Put library" in step()
        wait_until(lambda: servers() == {})


@pytest.mark.parametrize(
    "code", [errno.EMFILE, *(pytest.param(code, marks=pytest.mark.soak) for code in (errno.EAGAIN, errno.ENOMEM))]
)
def test_a_server_that_the_system_does_not_start_keeps_no_step_waiting(code: int, monkeypatch: pytest.MonkeyPatch):
    """As with `ulimit -n` or `-u`: the thread that starts servers is there for the next one all the same."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(pool, "ChildProcess", refused)
    with warm_servers(LIGHT):
        assert "Put library" in step()
        assert "Put library" in step()


def test_another_installation_is_not_served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    served = socket_path("/tmp/x", "compiler")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert socket_path("/tmp/x", "compiler") != served


def test_a_directory_too_long_for_a_socket_means_no_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import tempfile

    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with warm_servers(LIGHT):
        assert DIRECTORY not in os.environ


@pytest.mark.parametrize("kind", PRELOADS)
def test_servers_have_one_thread_so_that_a_fork_is_whole(kind: str):
    with warm_servers(PRELOADS):
        assert hand_over(kind, "tvmake.cli:run", ["export", "--help"]) is not None
        (server,) = servers()
        assert servers() == {server: kind}
        assert [path.name for path in Path(f"/proc/{server}/task").iterdir()] == [str(server)]
