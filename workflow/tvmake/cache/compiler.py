"""The identity of the linker of mod.so, as far as it can change the file's bytes."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tvmake.cache.errors import NotCacheableError
from tvmake.native.zig import zig_command
from tvmake.storage.files import digest_bytes, digest_file
from tvmake.storage.temporary import temporary_directory
from tvmake.targets.toolchain import PROBE, TIMEOUT_S

TRACE = "-Wl,--trace"
"""Has GNU ld, gold, lld and mold name every file they read."""


@cache
def compiler_identity(driver: str) -> dict[str, str]:
    """The driver, its linker, the start files and libraries that it links, and its output for a small library.

    Paths are left out: the same compiler in another directory writes the same bytes.

    Raises:
        NotCacheableError: it does not report its input files.
    """
    if (version := _zig(driver)) is not None:
        return version
    program = shutil.which(driver)
    if program is None:
        raise NotCacheableError(f"{driver} is not installed")
    linker = _output_of(driver, "-print-prog-name=ld")
    identity = {"version": _output_of(driver, "--version"), "driver": digest_file(Path(os.path.realpath(program)))}
    if linker_file := shutil.which(linker):
        identity["linker"] = digest_file(Path(linker_file))
    # Compiled objects get random names each time; with an existing object, only the linker's output is new.
    with temporary_directory("tvmake-cc-") as temporary:
        directory = str(temporary)
        (Path(directory) / "probe.c").write_text(PROBE)
        _run([driver, "-c", "-fPIC", "-o", "probe.o", "probe.c"], directory)
        traced = _run([driver, "-shared", "-fPIC", TRACE, "-o", "probe.so", "probe.o"], directory)
        read = sorted({path for line in traced.splitlines() if (path := _path(line, directory))})
        library = Path(directory) / "probe.so"
        if not library.is_file():
            raise NotCacheableError(f"{driver} links nothing")
        identity["probe"] = digest_file(library)
    if not read:
        raise NotCacheableError(f"{driver} does not report which files it links")
    files = sorted(f"{Path(path).name} {digest_file(Path(path))}" for path in read)
    identity["files"] = digest_bytes("\n".join(files).encode())
    return identity


def _zig(driver: str) -> dict[str, str] | None:
    """zig includes linker and C libraries: its version and the name of tvmake's script for it are its identity."""
    path = Path(driver)
    if path.parent.name != "toolchains" or not path.name.startswith("zig-"):
        return None
    command = zig_command()
    if command is None:
        raise NotCacheableError("zig is not installed")
    return {"zig": _run([*command, "version"], ".").strip(), "target": path.name.rpartition("-")[0]}


def _path(line: str, directory: str) -> str | None:
    """The file that a line of the linker's trace names: ``/usr/lib/libgcc.a(member.o)`` is its archive."""
    path = re.sub(r"\([^)]*\)$", "", line.strip())
    named = Path(directory, path)
    if not path or not named.is_file() or named.parent == Path(directory):
        return None
    return os.path.realpath(named)


def _output_of(driver: str, option: str) -> str:
    return _run([driver, option], ".").strip()


def _run(command: list[str], directory: str) -> str:
    try:
        finished = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCacheableError(f"{command[0]} does not run: {error}") from None
    if finished.returncode:
        raise NotCacheableError(f"{command[0]} {command[1]} ends with code {finished.returncode}")
    return finished.stdout
