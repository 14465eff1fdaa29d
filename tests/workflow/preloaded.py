"""``tvmake`` commands in forks of a process that has Snakemake loaded, with warm servers that stay between them.

Starting Snakemake is two thirds of a dry run's time, and starting the servers a third of a run's. For commands whose
outcome counts, not how the processes that run them start.
"""

import json
import os
import selectors
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.patience import HANG_S
from tests.process import shared
from tvmake.process.forkserver.client import DIRECTORY

PROGRAM = Path(__file__).with_name("preloading.py")


OF_COMMANDS = {"debug": ("tvmake.debug.search", "tvmake.debug.variant")}
"""Modules that only one command loads, and TVM with them."""


def run(
    arguments: list[str],
    directory: Path,
    environment: dict[str, str],
    warm: bool = False,
    wrapper: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run ``tvmake ARGUMENTS`` in a directory, with this environment and no other.

    Args:
        warm: whether its steps may be forked from servers that other commands use too: nothing in the environment is
            there to change how they load.
        wrapper: a command that runs the process from which this one is forked.
    """
    python_path = environment.get("PYTHONPATH") or None
    if warm:
        environment = {**environment, DIRECTORY: shared.directory(python_path)}
    process = _process(python_path, OF_COMMANDS.get(arguments[0], ()), wrapper)
    assert process.stdin and process.stdout
    with tempfile.TemporaryDirectory() as said:
        request = {"arguments": arguments, "directory": str(directory), "environment": environment, "said": said}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as answer:
            answer.register(process.stdout, selectors.EVENT_READ)
            if not answer.select(HANG_S):
                os.killpg(process.pid, signal.SIGKILL)
                _process.cache_clear()
                raise subprocess.TimeoutExpired(["tvmake", *arguments], HANG_S)
        code = int(process.stdout.readline())
        output, complaint = ((Path(said) / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(["tvmake", *arguments], code, output, complaint)


@cache
def _process(python_path: str | None, modules: tuple[str, ...], wrapper: tuple[str, ...]) -> subprocess.Popen[str]:
    """A server for each PYTHONPATH: its modules and plugins were determined when it started."""
    return shared.started(str(PROGRAM), *modules, python_path=python_path, wrapper=wrapper)
