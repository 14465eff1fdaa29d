"""Find the processes of a run by a mark in their environment, and the files that they leave."""

import json
import os
import signal
import socket
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

MARK = "TVMAKE_BENCHMARK_RUN"
"""The environment variable that says which run a process belongs to; whatever it starts inherits it."""

TEMPLATE, WARM = "tvmake.tune.measure.workers.forkserver:main", "tvmake.process.forkserver.server"
"""Modules in a process's command, and in that of its forks."""

ROLES = {"build": "builder", "run": "runner", "session": "runner", "tuner": "builder", "runtime": "runner"}
"""What is forked from a template, by its role, or by the kind of warm server that it comes from itself."""

LocalKind = Literal["job", "builder", "runner", "template", "make", "everything"]
FarmKind = Literal["server", "tracker"]
Kind = LocalKind | FarmKind

GRACE_S = 10.0
"""For processes to end with the one they belong to."""

TEMPORARY = ".tvmake-*"
"""What a killed writer may leave (:mod:`tvmake.storage.files`)."""


@dataclass(frozen=True)
class Process:
    """A living process."""

    pid: int
    parent: int
    command: list[str]

    def after(self, word: str) -> str | None:
        """The argument after one."""
        return self.command[self.command.index(word) + 1] if word in self.command else None


def processes(mark: str) -> dict[int, Process]:
    """Every living process of a run."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_text().split("\0")[:-1]
            if state not in "ZX":
                found[int(entry.name)] = Process(int(entry.name), int(parent), command)
    return found


def victims(kind: LocalKind, mark: str, make: int) -> list[int]:
    """The processes of a kind that live now.

    Args:
        make: the process of ``tvmake make``.
    """
    living = processes(mark)
    if kind in ("make", "everything"):
        return [make] if make in living else []
    controls = _control_sockets()
    files = {pid: _open_files(pid) for pid in living}
    jobs = [pid for pid, names in files.items() if any(name.endswith(".events.jsonl") for name in names)]
    # Jobs hold the other ends of their templates' sockets; workers hold none.
    templates = [pid for pid, names in files.items() if pid not in jobs and not controls.isdisjoint(names)]
    if kind == "job":
        return jobs
    if kind == "template":
        return templates
    return [
        one.pid
        for one in living.values()
        if one.parent in templates and one.pid not in templates and _forked_from(living[one.parent]) == kind
    ]


def _forked_from(template: Process) -> str | None:
    return ROLES.get(template.after(TEMPLATE) or template.after(WARM) or "")


def _open_files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(entry.readlink()))
    return found


def _control_sockets() -> set[str]:
    """Sockets that keep the boundaries of messages: what templates are told over."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {f"socket:[{fields[6]}]" for fields in lines if int(fields[4], 16) == socket.SOCK_SEQPACKET}


def kill(kind: LocalKind, victim: int, mark: str) -> None:
    """End a process, or with ``everything`` all of its run at once, as when the power goes."""
    for pid in processes(mark) if kind == "everything" else [victim]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def orphans(mark: str) -> list[str]:
    """Commands of the processes that are left a while after their run has ended; they are ended."""
    until = time.monotonic() + GRACE_S
    while (left := processes(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [" ".join(one.command)[:200] for one in left.values()]


def files_below(directory: Path) -> list[Path]:
    """All files below a directory that others write to meanwhile: ``rglob`` fails when a directory goes while it looks."""
    return sorted(Path(parent, name) for parent, _, names in os.walk(directory) for name in names)


def record_lines(store: Path) -> dict[str, set[bytes]]:
    """The complete lines of every file of records in a store."""
    found = {}
    for path in files_below(store):
        if path.name != "records.jsonl":
            continue
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        found[str(path.relative_to(store))] = set(whole.split(b"\n")) - {b""}
    return found


def missing(before: Mapping[str, set[bytes]], now: Mapping[str, set[bytes]]) -> int:
    """Lines that were lost."""
    return sum(len(lines - now.get(path, set())) for path, lines in before.items())


def _read_json(path: Path) -> None:
    json.loads(path.read_bytes())


def _read_arrays(path: Path) -> None:
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            _ = arrays[name]


def _read_tar(path: Path) -> None:
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                file.read()


READERS: dict[str, Callable[[Path], None]] = {".json": _read_json, ".npz": _read_arrays, ".tar": _read_tar}
DAMAGE = (ValueError, EOFError, OSError, tarfile.TarError, zipfile.BadZipFile)


def half_written(directory: Path) -> list[str]:
    """Files that cannot be read to their end; temporary ones are not looked at."""
    found = []
    for path in files_below(directory):
        reader = READERS.get(path.suffix)
        if reader is None or any(part.startswith(".tvmake-") for part in path.parts):
            continue
        try:
            reader(path)
        except FileNotFoundError:
            continue  # replaced meanwhile
        except DAMAGE as error:
            found.append(f"{path.relative_to(directory)}: {error}")
    return found


def leftovers(*directories: Path) -> list[str]:
    """Temporary files that nothing has cleaned up."""
    return [str(path) for directory in directories for path in directory.rglob(TEMPORARY)]
