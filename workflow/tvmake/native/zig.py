"""zig as a C and C++ compiler: programs that call one of its tools for a system, as other tools want them."""

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

INSTALL = "pip install ziglang"


def zig_command() -> list[str] | None:
    """How zig is called; None where it is not installed."""
    if importlib.util.find_spec("ziglang"):
        return python_command("-m", "ziglang")
    return ["zig"] if shutil.which("zig") else None


def script(command: list[str], label: str) -> Path:
    """A program that calls ``command`` with further arguments; it is written when it is not there yet.

    Args:
        label: the beginning of its file name, which the command's digest ends.
    """
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    place = cache_directory("toolchains") / f"{label}-{digest_bytes(text.encode())[:12]}"
    if not _is_program(place, text):
        place.parent.mkdir(parents=True, exist_ok=True)
        with scratch_directory(place.parent) as scratch:
            fresh = scratch / place.name
            fresh.write_text(text)
            fresh.chmod(0o755)
            fresh.replace(place)
    return place


def _is_program(place: Path, text: str) -> bool:
    try:
        return os.access(place, os.X_OK) and read_plain(place, len(text), "compiler driver") == text.encode()
    except (OSError, InputError):
        return False


def android_libm(command: list[str], triple: str) -> Path:
    """An empty ``libm.so`` to link with: musl has mathematical functions in ``libc.so``, Android in this library.

    Raises:
        MachineError: zig does not work.
    """
    place = cache_directory("toolchains") / f"libm-{triple}-{digest_bytes(shlex.join(command).encode())[:12]}.so"
    if place.is_file():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(place.parent) as scratch:
        (scratch / "empty.c").touch()
        link = [*command, "cc", "-target", triple, "-shared", "-nostdlib", "-Wl,-soname,libm.so"]
        fresh = scratch / "libm.so"
        done = subprocess.run(
            [*link, "-o", str(fresh), str(scratch / "empty.c")], capture_output=True, text=True, check=False
        )
        if done.returncode or not fresh.is_file():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise MachineError("zig", f"does not link for {triple}: {lines[-1] if lines else 'no message'}", INSTALL)
        fresh.replace(place)
    return place
