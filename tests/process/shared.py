"""Warm servers that tests of one process have in common: starting them is a third of what a run of a small project takes.

For tests that do not ask how processes start. Run as a program it keeps servers in a directory until its input ends.
"""

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tvmake.process.forkserver.pool import Pool
from tvmake.stages.preload import PRELOADS, write_servers

OF_USERS = ("TVMAKE_HOME", "TVMAKE_CACHE")
"""Variables that commands have by themselves."""

IDLE_S = 300.0
"""A server that nobody needs for so long ends."""


def directory(python_path: str | None = None) -> str:
    """Where the servers are (``TVMAKE_WARM``); each starts when it is first needed.

    Args:
        python_path: their PYTHONPATH, by default that of this process.
    """
    return _servers(python_path or os.environ.get("PYTHONPATH"))


@cache
def _servers(python_path: str | None) -> str:
    directory = tempfile.TemporaryDirectory(prefix="tvmake-test-")
    atexit.register(directory.cleanup)
    pool = started(__file__, directory.name, python_path=python_path)
    assert pool.stdout
    assert pool.stdout.readline() == "ready\n"
    return directory.name


def started(
    program: str, *arguments: str, python_path: str | None = None, wrapper: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """A Python program to talk to, until this process ends.

    Args:
        program: its file.
        arguments: of the program.
        python_path: its PYTHONPATH, by default none.
        wrapper: a command that runs the program.
    """
    environment = {name: value for name, value in os.environ.items() if name not in (*OF_USERS, "PYTHONPATH")}
    if python_path:
        environment["PYTHONPATH"] = python_path
    process = subprocess.Popen(
        [*wrapper, sys.executable, "-P", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
    atexit.register(process.kill)
    return process


def _serve(directory: str) -> None:
    pool = Pool(directory, PRELOADS, IDLE_S)
    write_servers(Path(directory))
    print("ready", flush=True)
    sys.stdin.read()
    pool.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
