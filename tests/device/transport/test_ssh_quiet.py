"""What asyncio has to say to nobody stays out of the terminal."""

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import HANG_S
from tests.workflow.project import SCRIPTS


def test_a_proxy_command_that_fails_is_two_lines(tmp_path: Path):
    """Either part of asyncio may see the end of that program first, and the loop may be closed by then; the other one warns."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host board\n  ProxyCommand sh -c 'exit 3'\n")
    script = """
import logging
from tvmake.cli import run
from tvmake.device.transport import ssh_connection
logging.getLogger("asyncio").warning("Unknown child process pid %d, will report returncode 255", 1)
logging.getLogger("asyncio").warning("Loop %r that handles pid %r is closed", None, 1)
raise SystemExit(run(["device", "info", "ssh:board"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: device 'ssh:board' (board): board closed the connection",
        "  see whether `ssh board` works",
    ]


def test_a_proxy_command_that_is_not_there_is_named(tmp_path: Path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host board\n  ProxyCommand /No/such/Program %h\n")
    done = subprocess.run(
        [str(SCRIPTS / "tvmake"), "device", "info", "ssh:board"], env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines() == [
        "error: device 'ssh:board' (board): board cannot be reached (no such file, which a ProxyCommand may start: /No/such/Program)",
        "  see whether `ssh board` works",
    ]
