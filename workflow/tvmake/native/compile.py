"""Compile a C++ part against the installed TVM wheel.

The result is kept by the digest of everything it was made of (:mod:`tvmake.native.parts`). Two processes that need
the same part build it once: the second waits for the first.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from tvmake.artifact.files import atomic_directory, write_json
from tvmake.errors import MachineError
from tvmake.native.parts import (
    HOST,
    SOURCES,
    Part,
    Toolchain,
    digest,
    identity,
    linked,
    package,
    pointer,
    root,
    sources_digest,
)

TELLING = ("error", "undefined reference", "cannot find")
"""What marks the line of a compiler's output that says why it failed."""


def build(part: Part, toolchain: Toolchain = HOST, tell: Callable[[str], None] | None = None) -> Path:
    """The part's file, compiled now unless this very build exists.

    Args:
        tell: is given one line when a compilation starts and one when it is done.

    Raises:
        MachineError: cmake, the compiler or TVM's libraries are missing, or the sources do not compile.
    """
    where = f"{part.name} ({toolchain.name})"
    if not part.is_here:
        raise MachineError(where, "this installation carries no sources for it", "reinstall tvmake")
    cmake, compiler = _tool("cmake", where), _tool(toolchain.compiler, where)
    for file in linked(toolchain):
        if not file.is_file():
            raise MachineError(where, f"{file} is not there", "reinstall apache-tvm, or name its directory")
    made_of, points = identity(part, toolchain), pointer(part, toolchain)
    facts = {**made_of, "compiler": _version(compiler, where)}
    place = root() / f"{part.name}-{digest(facts)}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        if not (place / part.output).is_file():
            _compile(part, toolchain, cmake, place, facts, tell or (lambda line: None))
        write_json(points, {"directory": place.name})
    return place / part.output


def _compile(
    part: Part, toolchain: Toolchain, cmake: str, place: Path, facts: dict, tell: Callable[[str], None]
) -> None:
    where = f"{part.name} ({toolchain.name})"
    tell(f"compiling {where} with {facts['compiler']} …")
    began = time.monotonic()
    with atomic_directory(place) as fresh:
        tree = fresh / "build"
        configure = [cmake, "-S", str(SOURCES), "-B", str(tree), *_definitions(part, toolchain, fresh)]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        log = root() / f"{part.name}-{toolchain.name}.log"
        _run(configure, log, where)
        _run([cmake, "--build", str(tree), "--target", part.name, "--parallel"], log, where)
        if sources_digest(part) != facts["sources"]:
            raise MachineError(where, "its sources changed while they were compiled", "run the same command again")
        (fresh / "out" / part.output).replace(fresh / part.output)
        shutil.rmtree(tree)
        shutil.rmtree(fresh / "out")
        write_json(fresh / "build.json", {**facts, "seconds": round(time.monotonic() - began, 1)})
    tell(f"{where}: {place / part.output} in {time.monotonic() - began:.0f} s")


def _definitions(part: Part, toolchain: Toolchain, fresh: Path) -> list[str]:
    runtime, ffi = linked(toolchain)
    flags = " ".join((f"-ffile-prefix-map={SOURCES}=native", f"-ffile-prefix-map={fresh}=.", *toolchain.flags))
    values = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER": toolchain.compiler,
        "CMAKE_CXX_FLAGS": flags,
        "TVMAKE_OUTPUT": fresh / "out",
        "TVMAKE_TVM": package("tvm"),
        "TVMAKE_TVM_FFI": package("tvm_ffi"),
        "TVMAKE_LIBTVM_RUNTIME": runtime,
        "TVMAKE_LIBTVM_FFI": ffi,
        f"TVMAKE_{part.name.upper()}": "ON",
    }
    if toolchain.system:
        values |= {"CMAKE_SYSTEM_NAME": toolchain.system, "CMAKE_SYSTEM_PROCESSOR": toolchain.processor}
    return [*(f"-D{name}={value}" for name, value in values.items()), *(f"-D{one}" for one in toolchain.definitions)]


def _run(command: list[str], log: Path, where: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},  # messages in the words that are looked for below
        text=True,
        check=False,
    )
    if done.returncode:
        log.write_text(" ".join(command) + "\n" + done.stdout)
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        telling = next((line for line in lines if any(word in line.lower() for word in TELLING)), "no message")
        raise MachineError(where, f"does not compile: {telling}", f"the whole output is in {log}")


def _tool(name: str, where: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MachineError(where, f"{name} is not installed, which compiles it", _hint(name))
    return found


def _hint(name: str) -> str:
    if name == "cmake":
        return "apt-get install cmake g++, or pip install cmake"
    if name.endswith("-g++"):
        return f"apt-get install g++-{name.removesuffix('-g++').replace('_', '-')}"
    return f"apt-get install {name}" if name in ("g++", "clang++") else f"put {name} on PATH"


def _version(compiler: str, where: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise MachineError(where, f"{compiler} --version fails", "see whether the compiler works")
    return done.stdout.splitlines()[0].strip()
