"""Looking at, and ending, the processes behind a measurer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.children import WITHOUT_TORCH
from tests.patience import wait_until as eventually  # noqa: F401  # for the tests of measurers
from tvmake.tune.measure.workers.processes import ENTRY, KINDS

ROOT = Path(__file__).resolve().parents[3]

WARM_SERVER = "tvmake.process.forkserver.server"


def program(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process of its own that tunes, and prints to a pipe."""
    command = [sys.executable, "-c", WITHOUT_TORCH + code, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def children(parent: int) -> list[int]:
    """Living processes that ``parent`` started."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] not in "ZX":
                processes.append(int(entry.name))
    return processes


def callers(program: str) -> list[int]:
    """Processes that wait for a program, which may be a script of a shell."""
    parents = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and program in command(int(entry.name)).split()[:2]:
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents.append(int(fields[1]))
    return parents


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def warm_servers_here() -> list[int]:
    """The warm servers of this process."""
    return [process for process in children(os.getpid()) if WARM_SERVER in command(process)]


def warm_fork_servers() -> dict[int, str]:
    """Fork servers that are forks of this process's warm servers, and the kind of server each comes from."""
    kinds = {}
    for server in warm_servers_here():
        words = command(server).split()
        kinds |= dict.fromkeys(children(server), words[words.index(WARM_SERVER) + 1])
    return kinds


def cold_fork_servers(role: str = "", parent: int | None = None) -> list[int]:
    """Fork servers that a process started, this one by default."""
    arguments = f"{ENTRY} {role}"
    return [process for process in children(parent or os.getpid()) if arguments in command(process)]


def fork_servers(role: str = "") -> list[int]:
    """Fork servers of this process, and those of any process that come from its warm servers."""
    warm = [process for process, kind in warm_fork_servers().items() if kind == KINDS.get(role, kind)]
    return [*cold_fork_servers(role), *warm]


def workers(role: str = "") -> list[int]:
    """Processes forked from :func:`fork_servers`."""
    return [worker for server in fork_servers(role) for worker in children(server)]


def state(process: int) -> str:
    """The letter of a process's state (proc(5)); empty when it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_alive(process: int) -> bool:
    return state(process) not in ("", "Z", "X")


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
