"""The C++ parts, and the location of their builds.

``native/parts.json`` lists the parts; CMake reads the same file. ``$TVMAKE_HOME/native`` (or the user's cache directory)
has one directory per build, named by a digest of everything that can change its bytes: sources, TVM's version and
libraries, compiler, toolchain. A small pointer file beside them names the current build for these sources, this TVM and
this toolchain. So it is found without running a compiler, within ten milliseconds: every ``import tvm`` imports this
module.
"""

import hashlib
import importlib.util
import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.directories import cache_directory
from tvmake.storage.resources import native_sources

WHEELS = ("apache-tvm", "apache-tvm-ffi")
"""Distributions whose headers and libraries the parts are compiled against."""

COMMON = ("CMakeLists.txt", "parts.json", "cmake/tvm.cmake")
"""Files that every part depends on, relative to the directory of the sources."""

JDK = "jdk"
"""The library for Java parts, which do not link TVM."""

CODE = (".cc", ".h")

CLML_SDK = "TVMAKE_CLML_SDK"
"""The environment variable with the directory of Qualcomm's OpenCL ML SDK."""

CLML_HEADER = "CL/cl_qcom_ml_ops.h"
"""The SDK's header for the OpenCL runtime library; without it, kernels compute CLML's layers."""


@dataclass(frozen=True)
class Part:
    """A library or program that is built as one unit.

    Attributes:
        name: the CMake target, and the name on the command line.
        output: the resulting file's name.
        directories: directories of its sources and headers, relative to that of all sources.
        purpose: its purpose, in a few words.
        uses: what it links: ``tvm``, or ``jdk`` without TVM.
        project: the directory of its ``CMakeLists.txt``; empty for that of all sources.
    """

    name: str
    output: str
    directories: tuple[str, ...]
    purpose: str
    uses: str = "tvm"
    project: str = ""


TVM_RUNTIME = Part(
    "tvm_runtime",
    "libtvm_runtime.a",
    ("tvm_sources", "tvm_support"),
    "TVM's runtime from its sources",
    project="tvm_sources",
)
"""The runtime to link on systems for which TVM publishes none."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler, and the machine that it compiles for.

    Attributes:
        name: a word for messages and file names.
        compiler: the C++ compiler driver.
        system: CMake's name of the target system (``Linux``, ``Android``); empty for this machine.
        processor: the target processor (``aarch64``); empty for this machine.
        libraries: directories of the ``libtvm_runtime.so`` and ``libtvm_ffi.so`` to link; empty for the installed wheels'.
        flags: additional compiler and linker flags.
        definitions: additional definitions for CMake (``CMAKE_TOOLCHAIN_FILE=…``).
        archive: the build of :data:`TVM_RUNTIME` to link instead of shared libraries.
        directories: directories of sources that are compiled into every part, in addition to the part's.
    """

    name: str = "host"
    compiler: str = "g++"
    system: str = ""
    processor: str = ""
    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    archive: str = ""
    directories: tuple[str, ...] = ()


HOST = Toolchain()


def parts() -> dict[str, Part]:
    """All parts by name.

    Raises:
        MachineError: this installation lacks the sources.
    """
    try:
        rows = json.loads((native_sources() / "parts.json").read_text())
    except FileNotFoundError:
        raise MachineError("tvmake", "this installation lacks the C++ sources", "reinstall tvmake") from None
    return {name: Part(name, **{**row, "directories": tuple(row["directories"])}) for name, row in rows.items()}


def root() -> Path:
    """``$TVMAKE_HOME/native``, or the user's cache directory."""
    return cache_directory("native")


def find_built(name: str, toolchain: Toolchain = HOST) -> Path | None:
    """The current build of a part from these sources for this TVM, or None. Runs no compiler and never fails."""
    try:
        part = parts()[name]
        build = json.loads(pointer(part, toolchain).read_text())["directory"]
    except (ImportError, MachineError, OSError, ValueError, KeyError, TypeError):
        return None
    file = root() / str(build) / part.output
    return file if file.is_file() else None


def pointer(part: Part, toolchain: Toolchain) -> Path:
    """The pointer file of the current build."""
    return root() / f"{part.name}-{toolchain.name}-{digest(identity(part, toolchain))}.json"


def identity(part: Part, toolchain: Toolchain) -> dict[str, object]:
    """Everything that can change a build's bytes, except the compiler."""
    return {
        "part": part.name,
        "sources": sources_digest(part, toolchain),
        "wheels": {name: metadata.version(name) for name in WHEELS},
        "libraries": [[file.name, file.stat().st_size] for file in linked_libraries(part, toolchain) if file.is_file()],
        "toolchain": asdict(toolchain),
        **_clml_identity(part),
    }


def clml_headers(part: Part) -> Path | None:
    """The directory of CLML's header, for the part that uses it; None without an SDK.

    Raises:
        MachineError: the SDK has no such header.
    """
    named = os.environ.get(CLML_SDK)
    if part.name != "opencl" or not named:
        return None
    sdk = Path(named).expanduser().resolve()
    for directory in (sdk, sdk / "inc", sdk / "include"):
        if (directory / CLML_HEADER).is_file():
            return directory
    remedy = (
        "set it to the directory of an OpenCL ML SDK with this header, or unset the variable to compile without CLML"
    )
    raise MachineError(CLML_SDK, f"{named} has no {CLML_HEADER}", remedy)


def _clml_identity(part: Part) -> dict[str, object]:
    headers = clml_headers(part)
    return {"clml": hashlib.sha256((headers / CLML_HEADER).read_bytes()).hexdigest()} if headers else {}


def linked_libraries(part: Part, toolchain: Toolchain) -> tuple[Path, ...]:
    """The TVM libraries that a part links, existing or not: its runtime, and its FFI library."""
    if part.project or part.uses == JDK:
        return ()
    if toolchain.archive:
        return (Path(toolchain.archive),)
    directories = [Path(path) for path in toolchain.libraries] or [package("tvm") / "lib", package("tvm_ffi") / "lib"]

    def find(name: str) -> Path:
        candidates = [directory / name for directory in directories]
        return next((file for file in candidates if file.is_file()), candidates[0])

    return find("libtvm_runtime.so"), find("libtvm_ffi.so")


@cache
def package(name: str) -> Path:
    """The directory of an installed Python package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(name)
    return Path(next(iter(spec.submodule_search_locations)))


def sources_digest(part: Part, toolchain: Toolchain = HOST) -> str:
    """sha256 over the names and contents of the part's sources, independent of their directory."""
    sources = native_sources()
    if part.project:
        files = [sources / part.project / "CMakeLists.txt"]
    else:
        files = [sources / name for name in (*COMMON, *(("cmake/jni.cmake",) if part.uses == JDK else ()))]
    for directory in (*part.directories, *(() if part.uses == JDK else toolchain.directories)):
        files += sorted(file for file in (sources / directory).rglob("*") if file.suffix in CODE)
    lines = hashlib.sha256()
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.update(f"{file.relative_to(sources).as_posix()} {content}\n".encode())
    return lines.hexdigest()


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
