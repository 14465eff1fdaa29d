"""Looking at, and ending, the processes behind a measurer."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE_S = 60.0


Found = TypeVar("Found")


def eventually(what: Callable[[], Found]) -> Found:
    """Wait for something to become true."""
    until = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return found


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


def templates(role: str = "", parent: int | None = None) -> list[int]:
    """Template processes of a process, this one by default."""
    named = f"tvmake.tune.measuring.template {role}"
    return [one for one in children(parent or os.getpid()) if named in command(one)]


def workers(role: str = "", parent: int | None = None) -> list[int]:
    """Processes forked from its templates."""
    return [one for template in templates(role, parent) for one in children(template)]


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
