"""The C++ parts, and where a compiled one is kept.

``$TVMAKE_HOME/native`` (or the user's cache directory) holds a directory a build, named by a digest of everything
that can change its bytes: sources, TVM's version and libraries, compiler, toolchain. Beside them a small pointer file
says which build is the current one for these sources, this TVM and this toolchain, so that a process finds it without
asking a compiler, within ten milliseconds: this module is imported by every ``import tvm``.
"""

import hashlib
import importlib.util
import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

SOURCES = Path(__file__).resolve().parent

WHEELS = ("apache-tvm", "apache-tvm-ffi")
"""Distributions whose headers and libraries the parts are compiled against."""

CODE = (".cc", ".h", ".txt", ".cmake", ".map")


@dataclass(frozen=True)
class Part:
    """A library or program that is built as a whole.

    Attributes:
        name: the CMake target, and the word on the command line.
        output: name of the file that is made.
        directories: directories under ``native/`` that hold its sources.
        purpose: what it is for, in a few words.
    """

    name: str
    output: str
    directories: tuple[str, ...]
    purpose: str

    @property
    def is_here(self) -> bool:
        """Whether this installation carries its sources."""
        return (SOURCES / self.directories[0] / "CMakeLists.txt").is_file()


@dataclass(frozen=True)
class Toolchain:
    """What compiles a part, and for which machine.

    Attributes:
        name: a word for messages and file names.
        compiler: the C++ compiler driver.
        system: CMake's name of the system that runs the result (``Linux``, ``Android``); empty for this machine.
        processor: its processor (``aarch64``); empty for this machine.
        libraries: directories with the ``libtvm_runtime.so`` and ``libtvm_ffi.so`` to link with; empty for the
            installed wheels'.
        flags: further compiler and linker flags.
        definitions: further definitions for CMake (``CMAKE_TOOLCHAIN_FILE=…``).
    """

    name: str = "host"
    compiler: str = "g++"
    system: str = ""
    processor: str = ""
    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()


HOST = Toolchain()

OPENCL = Part("opencl", "libtvmake_opencl.so", ("opencl", "digest", "tvm_support"), "runs OpenCL packages")
SERVER = Part("server", "tvmake-serve", ("server", "digest"), "RPC server for devices without Python")
RUNNER = Part("runner", "tvmake-run", ("runner", "abi", "digest"), "runs a package without Python")
ABI = Part("abi", "libtvmake_package.so", ("abi", "digest"), "packages in C++ and C programs")
PARTS = {part.name: part for part in (OPENCL, SERVER, RUNNER, ABI)}


def root() -> Path:
    """``$TVMAKE_HOME/native``, or the user's cache directory."""
    home = os.environ.get("TVMAKE_HOME")
    if home:
        return Path(home) / "native"
    from platformdirs import user_cache_path

    return user_cache_path("tvmake") / "native"


def find_built(part: Part, toolchain: Toolchain = HOST) -> Path | None:
    """The current build of these very sources for this TVM, or None. Asks no compiler and never fails."""
    try:
        name = json.loads(pointer(part, toolchain).read_text())["directory"]
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return None
    file = root() / str(name) / part.output
    return file if file.is_file() else None


def pointer(part: Part, toolchain: Toolchain) -> Path:
    """The file that names the current build."""
    return root() / f"{part.name}-{toolchain.name}-{digest(identity(part, toolchain))}.json"


def identity(part: Part, toolchain: Toolchain) -> dict[str, object]:
    """Everything but the compiler that can change a build's bytes."""
    return {
        "part": part.name,
        "sources": sources_digest(part),
        "wheels": {name: metadata.version(name) for name in WHEELS},
        "libraries": [[file.name, file.stat().st_size] for file in linked(toolchain) if file.is_file()],
        "toolchain": asdict(toolchain),
    }


def linked(toolchain: Toolchain) -> tuple[Path, Path]:
    """TVM's runtime library and its FFI library, as ``toolchain`` links them; they need not be there."""
    places = [Path(place) for place in toolchain.libraries] or [package("tvm") / "lib", package("tvm_ffi") / "lib"]
    names = ("libtvm_runtime.so", "libtvm_ffi.so")
    found = [next((place / name for place in places if (place / name).is_file()), places[0] / name) for name in names]
    return found[0], found[1]


@cache
def package(name: str) -> Path:
    """Directory of an installed Python package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(name)
    return Path(next(iter(spec.submodule_search_locations)))


def sources_digest(part: Part) -> str:
    """sha256 over the names and contents of the part's sources."""
    files = [SOURCES / "CMakeLists.txt"]
    for directory in part.directories:
        files += sorted(file for file in (SOURCES / directory).rglob("*") if file.suffix in CODE)
    listed = hashlib.sha256()
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        listed.update(f"{file.relative_to(SOURCES).as_posix()} {content}\n".encode())
    return listed.hexdigest()


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
