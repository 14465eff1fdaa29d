"""Temporary directories are gone once nobody holds them, whoever the owner was and however it ended."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tvmake.errors import MachineError
from tvmake.process.python import python_command
from tvmake.storage import temporary
from tvmake.storage.files import TEMPORARY_PREFIX, atomic_directory, atomic_path, scratch_directory, write_bytes
from tvmake.storage.temporary import LONGEST_KEPT_S, locked_directory, resumable_directory, sweep, temporary_directory

PREFIX = ".test-"

HOLDER = """
import sys, time
from pathlib import Path
from tvmake.storage.files import atomic_directory, atomic_path, scratch_directory
from tvmake.storage.temporary import temporary_directory
directory = Path(sys.argv[1])
with atomic_path(directory / "file") as file, atomic_directory(directory / "tree") as tree, scratch_directory(directory) as scratch:
    with temporary_directory("tvmake-holder-") as elsewhere:
        for path in (file, tree / "a", scratch / "b", elsewhere / "c"):
            path.write_text("half")
        print("holding", flush=True)
        time.sleep(100000)
"""


def left(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.startswith((TEMPORARY_PREFIX, PREFIX, "tvmake-")))


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Starts a process that holds temporaries of all kinds; the command that starts it may be put before it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    started: list[subprocess.Popen[str]] = []

    def start(*before: str) -> subprocess.Popen[str]:
        command = [*before, *python_command("-c", HOLDER, str(tmp_path))]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        assert started[-1].stdout and started[-1].stdout.readline() == "holding\n"
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANG_S)


def use_everything(directory: Path) -> None:
    """As the next run does."""
    write_bytes(directory / "next", b"")
    with temporary_directory("tvmake-holder-"):
        pass


INTERRUPTED = """
import os, sys
from pathlib import Path
from tvmake.storage.temporary import LOCK, locked_directory

def interrupt(event, arguments):
    if event == "open" and os.fspath(arguments[0]).endswith(LOCK):
        raise KeyboardInterrupt

sys.addaudithook(interrupt)
with locked_directory(Path(sys.argv[1]), ".test-"):
    pass
"""


def test_a_ctrl_c_just_as_one_is_made_leaves_nothing(tmp_path: Path):
    command = python_command("-c", INTERRUPTED, str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one(holder, tmp_path: Path):
    process = holder()
    assert len(left(tmp_path)) == 4
    use_everything(tmp_path)
    assert len(left(tmp_path)) == 4
    process.kill()
    process.wait(HANG_S)
    use_everything(tmp_path)
    assert left(tmp_path) == []


def test_a_process_in_another_container_keeps_its_own(holder, tmp_path: Path):
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces cannot be made here")
    holder(*unshare)
    use_everything(tmp_path)
    assert len(left(tmp_path)) == 4


def test_what_was_left_without_a_lock_is_removed_only_if_it_is_empty(tmp_path: Path):
    (tmp_path / f"{PREFIX}empty").mkdir()
    (tmp_path / f"{PREFIX}full").mkdir()
    (tmp_path / f"{PREFIX}full" / "file").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / f"{PREFIX}full")
    (tmp_path / f"{PREFIX}file").touch()
    sweep(tmp_path, PREFIX)
    assert [path.name for path in left(tmp_path)] == [f"{PREFIX}file", f"{PREFIX}full", f"{PREFIX}link"]


def test_a_lock_that_is_a_link_leads_nowhere(tmp_path: Path):
    (tmp_path / "mine").touch()
    (tmp_path / f"{PREFIX}x").mkdir()
    (tmp_path / f"{PREFIX}x" / "lock").symlink_to(tmp_path / "mine")
    sweep(tmp_path, PREFIX)
    assert (tmp_path / f"{PREFIX}x" / "lock").is_symlink() and (tmp_path / "mine").exists()


def test_a_directory_that_was_swept_before_it_was_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, swept = fcntl.flock, []

    def flock(descriptor: int, how: int) -> None:
        if not swept and how == fcntl.LOCK_EX:
            swept.append(True)
            shutil.rmtree(left(tmp_path)[0])
        real(descriptor, how)

    monkeypatch.setattr(temporary.fcntl, "flock", flock)
    with locked_directory(tmp_path, PREFIX) as directory:
        assert swept and directory.is_dir()
    assert left(tmp_path) == []


def test_many_at_once_never_lose_theirs(tmp_path: Path):
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(100):
                with locked_directory(tmp_path, PREFIX) as directory:
                    (directory / "file").write_text("x")
                    assert (directory / "file").read_text() == "x"
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert failures == [] and left(tmp_path) == []


def test_without_locks_nothing_is_taken_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(_descriptor: int, _how: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(temporary.fcntl, "flock", flock)
    with locked_directory(tmp_path, PREFIX) as directory:
        sweep(tmp_path, PREFIX)
        assert directory.is_dir()
    assert left(tmp_path) == []


def test_a_program_that_replaces_the_file_it_writes_keeps_it(tmp_path: Path):
    with atomic_path(tmp_path / "out.so") as file:
        file.unlink()
        file.write_bytes(b"new")
        write_bytes(tmp_path / "another", b"")
    assert (tmp_path / "out.so").read_bytes() == b"new"
    with atomic_directory(tmp_path / "tree") as tree, scratch_directory(tmp_path) as scratch:
        assert tree.is_dir() and scratch.is_dir()
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "problem"), [(errno.ENOSPC, "no space left on the disk"), (errno.EFBIG, "exceeds this process")]
)
def test_a_refusal_to_write_a_temporary_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(MachineError, match=problem) as refused, temporary_directory("tvmake-x-") as directory:
        raise OSError(number, "refused", str(directory / "file"))
    assert str(tmp_path) in refused.value.where


def test_a_refusal_to_write_elsewhere_is_not_about_temporary_files(tmp_path: Path):
    with pytest.raises(OSError, match="/elsewhere"), temporary_directory("tvmake-x-"):
        raise OSError(errno.ENOSPC, "full", "/elsewhere/file")


def test_what_work_that_did_not_end_left_is_there_for_the_next_and_gone_when_that_ends(tmp_path):
    parent = tmp_path / "works"
    with pytest.raises(KeyboardInterrupt), resumable_directory(parent, "one") as directory:
        (directory / "half").write_text("done")
        raise KeyboardInterrupt
    with resumable_directory(parent, "two") as directory:
        assert list(directory.iterdir()) == []
    with resumable_directory(parent, "one") as directory:
        assert (directory / "half").read_text() == "done"
    assert list(parent.iterdir()) == []


def test_two_at_the_same_work_do_not_share_a_directory(tmp_path):
    with resumable_directory(tmp_path / "works", "one") as first:
        with resumable_directory(tmp_path / "works", "one") as second:
            (second / "a").write_text("b")
        assert not second.exists()
        assert list(first.iterdir()) == []


def test_work_that_nobody_went_on_with_is_removed_in_the_end(tmp_path):
    parent = tmp_path / "works"
    for name in ("old", "new"):
        with pytest.raises(ValueError, match="ended"), resumable_directory(parent, name):
            raise ValueError("ended")
    then = (parent / "old").stat().st_mtime - LONGEST_KEPT_S - 1
    os.utime(parent / "old", (then, then))
    with resumable_directory(parent, "another"):
        assert {path.name for path in parent.iterdir()} == {"new", "another"}


def test_work_continues_in_a_temporary_directory_where_nothing_can_be_kept(tmp_path):
    (tmp_path / "works").write_text("a file")
    with resumable_directory(tmp_path / "works", "one") as directory:
        (directory / "a").write_text("b")
    assert not directory.exists()
