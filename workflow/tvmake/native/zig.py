"""zig as a C and C++ compiler: scripts that call one of its tools, for programs that expect a single command."""

import importlib.util
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from tvmake.errors import InputError, MachineError
from tvmake.process.python import python_command
from tvmake.storage.directories import cache_directory
from tvmake.storage.files import digest_bytes, scratch_directory
from tvmake.storage.plain_files import read_plain

INSTALL = "pip install 'tvmake[android]'"


def zig_command() -> list[str] | None:
    """The command line of zig; None if it is not installed."""
    if importlib.util.find_spec("ziglang"):
        return python_command("-m", "ziglang")
    return ["zig"] if shutil.which("zig") else None


def script(command: list[str], label: str) -> Path:
    """A script that calls ``command`` with further arguments; created if necessary.

    Args:
        label: the beginning of its file name, before the command's digest.
    """
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    path = cache_directory("toolchains") / f"{label}-{digest_bytes(text.encode())[:12]}"
    if not _is_program(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch_directory(path.parent) as scratch:
            new = scratch / path.name
            new.write_text(text)
            new.chmod(0o755)
            new.replace(path)
    return path


def _is_program(path: Path, text: str) -> bool:
    try:
        return os.access(path, os.X_OK) and read_plain(path, len(text), "compiler driver") == text.encode()
    except (OSError, InputError):
        return False


def android_libm(command: list[str], triple: str) -> Path:
    """An empty ``libm.so`` to link: musl's mathematical functions are in ``libc.so``, Android's in this library.

    Raises:
        MachineError: zig does not work.
    """
    path = cache_directory("toolchains") / f"libm-{triple}-{digest_bytes(shlex.join(command).encode())[:12]}.so"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(path.parent) as scratch:
        (scratch / "empty.c").touch()
        link = [*command, "cc", "-target", triple, "-shared", "-nostdlib", "-Wl,-soname,libm.so"]
        new = scratch / "libm.so"
        finished = subprocess.run(
            [*link, "-o", str(new), str(scratch / "empty.c")], capture_output=True, text=True, check=False
        )
        if finished.returncode or not new.is_file():
            lines = [line for line in finished.stderr.splitlines() if line.strip()]
            raise MachineError("zig", f"does not link for {triple}: {lines[-1] if lines else 'no message'}", INSTALL)
        new.replace(path)
    return path
