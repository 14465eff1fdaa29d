"""Compile a C++ part against the installed TVM wheel.

The result is stored by the digest of everything it was built from (:mod:`tvmake.native.parts`). If two processes need the
same part, the second waits for the first.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from tvmake.errors import MachineError
from tvmake.native.parts import (
    HOST,
    JDK,
    Part,
    Toolchain,
    clml_headers,
    digest,
    identity,
    linked_libraries,
    package,
    parts,
    pointer,
    root,
    sources_digest,
)
from tvmake.storage.files import atomic_directory, write_json
from tvmake.storage.resources import native_sources

ERROR_MARKS = ("error", "undefined reference", "cannot find")
"""Words in the line of a compiler's output that has the reason of a failure."""


def build(name: str, toolchain: Toolchain = HOST, progress: Callable[[str], None] | None = None) -> Path:
    """The output file of a part, compiled if necessary.

    Args:
        progress: called with a line when a compilation starts, and when it ends.

    Raises:
        MachineError: the sources, cmake, the compiler or TVM's libraries are missing, or the sources do not compile.
    """
    return build_part(parts()[name], toolchain, progress)


def build_part(part: Part, toolchain: Toolchain = HOST, progress: Callable[[str], None] | None = None) -> Path:
    """Like :func:`build`, for a part that is not in the list.

    Raises:
        MachineError: as :func:`build`.
    """
    where = f"{part.name} ({toolchain.name})"
    cmake, compiler = _tool("cmake", where), _tool(toolchain.compiler, where)
    if part.uses == JDK and "android" not in toolchain.name:  # the NDK includes jni.h
        _tool("javac", where)
    for file in linked_libraries(part, toolchain):
        if not file.is_file():
            raise MachineError(where, f"{file} is not there", "reinstall apache-tvm, or name its directory")
    inputs, pointer_file = identity(part, toolchain), pointer(part, toolchain)
    facts = {**inputs, "compiler": _version(compiler, where)}
    directory = root() / f"{part.name}-{digest(facts)}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if not (directory / part.output).is_file():
            _compile(part, toolchain, cmake, directory, facts, progress or (lambda line: None))
        write_json(pointer_file, {"directory": directory.name})
    return directory / part.output


def _compile(
    part: Part,
    toolchain: Toolchain,
    cmake: str,
    directory: Path,
    facts: dict[str, object],
    progress: Callable[[str], None],
) -> None:
    where = f"{part.name} ({toolchain.name})"
    progress(f"compiling {where} with {facts['compiler']} …")
    began = time.monotonic()
    with atomic_directory(directory) as build_directory:
        tree = build_directory / "build"
        configure = [cmake, "-S", str(native_sources() / part.project), "-B", str(tree)]
        configure += _definitions(part, toolchain, build_directory)
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        log = root() / f"{part.name}-{toolchain.name}.log"
        _run(configure, log, where)
        _run([cmake, "--build", str(tree), "--target", part.name, "--parallel"], log, where)
        if sources_digest(part, toolchain) != facts["sources"]:
            raise MachineError(where, "its sources changed while they were compiled", "run the same command again")
        (tree / "parts" / part.output).replace(build_directory / part.output)
        shutil.rmtree(tree)
        write_json(build_directory / "build.json", {**facts, "seconds": round(time.monotonic() - began, 1)})
    progress(f"{where}: {directory / part.output} in {time.monotonic() - began:.0f} s")


def _definitions(part: Part, toolchain: Toolchain, build_directory: Path) -> list[str]:
    """Options for CMake that keep paths of this machine out of the result."""
    maps = (f"-ffile-prefix-map={native_sources()}=native", f"-ffile-prefix-map={build_directory}=.")
    headers = clml_headers(part)
    includes = (f"-isystem {headers}",) if headers else ()
    values = {
        "BUILD_TESTING": "OFF",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER": toolchain.compiler,
        "CMAKE_CXX_FLAGS": " ".join((*maps, *includes, *toolchain.flags)),
        "TVM_ROOT": package("tvm"),
        "TVM_FFI_ROOT": package("tvm_ffi"),
    }
    libraries = linked_libraries(part, toolchain)
    if toolchain.archive and libraries:
        values |= {"TVM_ARCHIVE": libraries[0], "EXTRA_DIRECTORIES": ";".join(toolchain.directories)}
    elif libraries:
        values |= dict(zip(("TVM_RUNTIME_LIBRARY", "TVM_FFI_LIBRARY"), libraries, strict=True))
    if toolchain.system:
        values |= {"CMAKE_SYSTEM_NAME": toolchain.system, "CMAKE_SYSTEM_PROCESSOR": toolchain.processor}
    return [f"-D{name}={value}" for name, value in values.items()] + [f"-D{text}" for text in toolchain.definitions]


def _run(command: list[str], log: Path, where: str) -> None:
    finished = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},  # English messages, for ERROR_MARKS
        text=True,
        check=False,
    )
    if finished.returncode:
        log.write_text(" ".join(command) + "\n" + finished.stdout)
        lines = [line.strip() for line in finished.stdout.splitlines() if line.strip()]
        reason = next((line for line in lines if any(mark in line.lower() for mark in ERROR_MARKS)), "no message")
        raise MachineError(where, f"does not compile: {reason}", f"the whole output is in {log}")


def _tool(name: str, where: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MachineError(where, f"{name}, which compiles it, is not installed", _hint(name))
    return path


def _hint(name: str) -> str:
    if name == "cmake":
        return "apt-get install cmake g++, or pip install cmake"
    if name == "javac":
        return "apt-get install openjdk-17-jdk-headless, or put another JDK's bin on PATH"
    if name.endswith("-g++"):
        return f"apt-get install g++-{name.removesuffix('-g++').replace('_', '-')}"
    return f"apt-get install {name}" if name in ("g++", "clang++") else f"put {name} on PATH"


def _version(compiler: str, where: str) -> str:
    finished = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    if finished.returncode or not finished.stdout.strip():
        raise MachineError(where, f"{compiler} --version fails", "see whether the compiler works")
    return finished.stdout.splitlines()[0].strip()
