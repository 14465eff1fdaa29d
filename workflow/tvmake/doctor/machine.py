"""The machine: cores, memory, disk space, writable directories."""

import os
import shutil
import tempfile
from pathlib import Path

from tvmake.device.fingerprint import local_fingerprint
from tvmake.device.store import store_root
from tvmake.doctor.check import Check
from tvmake.doctor.hosts import host_problem

GROUP = "machine"
LEAST_MEMORY = 2 << 30
"""Bytes below which importing and building a network of common size runs out of memory."""
LEAST_DISK = 1 << 30
"""Bytes below which a few packages do not fit."""


def machine() -> list[Check]:
    """Operating system, CPU, memory, disk and the package store."""
    device = local_fingerprint(None)
    hint, is_fatal = host_problem()
    memory = Check(GROUP, "memory", "ok", _size(device.memory_bytes))
    if device.memory_bytes < LEAST_MEMORY:
        hint = f"building networks takes {_size(LEAST_MEMORY)} or more"
        memory = Check(GROUP, "memory", "problem", _size(device.memory_bytes), hint)
    return [
        Check(GROUP, "system", "problem" if hint else "ok", device.os, hint, is_fatal),
        Check(GROUP, "CPU", "ok", f"{device.soc}, {device.cores} usable cores"),
        memory,
        _disk(Path.cwd()),
        writable("working directory", Path.cwd()),
        writable("package store", store_root()),
    ]


def _disk(path: Path) -> Check:
    free = shutil.disk_usage(path).free
    if free < LEAST_DISK:
        hint = "free some space, or work in another directory"
        return Check(GROUP, "disk", "problem", f"{_size(free)} free in {path}", hint)
    return Check(GROUP, "disk", "ok", f"{_size(free)} free in {path}")


def writable(name: str, directory: Path) -> Check:
    """Whether files can be written in ``directory``, or it can be created."""
    hint = "give write permission" if name == "working directory" else "set TVMAKE_HOME to a directory you can write to"
    existing = next((parent for parent in (directory, *directory.parents) if parent.exists()), Path("/"))
    try:
        if existing == directory:
            with tempfile.NamedTemporaryFile(dir=directory):
                pass
        elif not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise NotADirectoryError if not existing.is_dir() else PermissionError
    except OSError as error:
        problem = f"cannot write to {directory}: {error.strerror or 'no permission'}"
        return Check(GROUP, name, "problem", problem, hint, True)
    return Check(GROUP, name, "ok", str(directory), required=True)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
