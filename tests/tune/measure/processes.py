"""Looking at, and ending, the processes behind a measurer."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.children import WITHOUT_TORCH
from tests.patience import wait_until as eventually

ROOT = Path(__file__).resolve().parents[3]


def program(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process of its own that tunes, and prints to a pipe."""
    command = [sys.executable, "-c", WITHOUT_TORCH + code, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def children(parent: int) -> list[int]:
    """Living processes that ``parent`` started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def fork_servers(role: str = "", parent: int | None = None) -> list[int]:
    """Fork servers of a process, this one by default."""
    named = f"tvmake.tune.measure.workers.forkserver:main {role}"
    return [one for one in children(parent or os.getpid()) if named in command(one)]


def workers(role: str = "", parent: int | None = None) -> list[int]:
    """Processes forked from its fork servers."""
    return [one for server in fork_servers(role, parent) for one in children(server)]


def stuck_worker(role: str) -> int:
    """A worker that is still there half a second after it was first seen."""
    seen: dict[int, float] = {}

    def stuck() -> list[int]:
        now = time.monotonic()
        return [worker for worker in workers(role) if now - seen.setdefault(worker, now) > 0.5]

    return eventually(stuck)[0]


def state(process: int) -> str:
    """Its state's letter (proc(5)); empty when it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_alive(process: int) -> bool:
    return state(process) not in ("", "Z", "X")


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
