"""``tvmake`` commands in forks of a process that has Snakemake loaded, with warm servers that stay between them.

Starting Snakemake is two thirds of a dry run's time, and starting the servers a third of a run's. For commands whose
outcome counts, not how the processes that run them start. Run as a program it is that process: it reads a request a line,
and answers each with the command's exit code.
"""

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tvmake.warm.client import DIRECTORY
from tvmake.warm.pool import Pool

OF_USERS = ("TVMAKE_HOME", "TVMAKE_CACHE")
"""Variables that commands have by themselves."""

PRELOADED = ("tvmake.cli.make", "tvmake.cli.progress", "tvmake.plan.plan", "snakemake.cli", "snakemake.workflow")

LIMIT_S = 300.0

IDLE_S = 300.0
"""A warm server that nobody needs for so long ends."""


def run(
    arguments: list[str], directory: Path, environment: dict[str, str], warm: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run ``tvmake ARGUMENTS`` in a directory, with this environment and no other.

    Args:
        warm: whether its steps may be forked from servers that other commands use too: nothing in the environment is
            there to change how they load.
    """
    python_path = os.environ.get("PYTHONPATH")
    if warm:
        environment = {**environment, DIRECTORY: _servers(python_path)}
    process = _process(python_path)
    assert process.stdin and process.stdout
    with tempfile.TemporaryDirectory() as said:
        request = {"arguments": arguments, "directory": str(directory), "environment": environment, "said": said}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as answer:
            answer.register(process.stdout, selectors.EVENT_READ)
            if not answer.select(LIMIT_S):
                os.killpg(process.pid, signal.SIGKILL)
                _process.cache_clear()
                raise subprocess.TimeoutExpired(["tvmake", *arguments], LIMIT_S)
        code = int(process.stdout.readline())
        output, complaint = ((Path(said) / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(["tvmake", *arguments], code, output, complaint)


@cache
def _process(python_path: str | None) -> subprocess.Popen[str]:
    """One for each PYTHONPATH: what is loaded, and which plugins are found, was decided when it started."""
    return _started()


@cache
def _servers(python_path: str | None) -> str:
    """Starts a pool of warm servers; its directory."""
    place = tempfile.TemporaryDirectory(prefix="tvmake-test-")
    atexit.register(place.cleanup)
    pool = _started(place.name)
    assert pool.stdout
    assert pool.stdout.readline() == "ready\n"
    return place.name


def _started(*arguments: str) -> subprocess.Popen[str]:
    """This module as a program, until this process ends."""
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name not in OF_USERS},
    )
    atexit.register(process.kill)
    return process


def _serve() -> None:
    for name in PRELOADED:
        __import__(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(arguments: list[str], directory: str, environment: dict[str, str], said: str) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(said) / name, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    from tvmake.cli import main

    sys.argv = ["tvmake", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _keep_servers(directory: str) -> None:
    pool = Pool(directory, IDLE_S)
    print("ready", flush=True)
    sys.stdin.read()
    pool.close()


if __name__ == "__main__":
    _keep_servers(*sys.argv[1:]) if sys.argv[1:] else _serve()
