"""Find the compiler driver that links mod.so, and check that the linked library fits the device.

The triple decides. This machine's g++ links for its own triple. The NDK's clang links for Android, or zig without an
NDK. Debian's cross g++ links for other Linux systems, or zig if only that is installed. mod.so contains LLVM's code and
no C++, so it needs only the C library. That makes zig safe, whose C++ runtime is incompatible with TVM's.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tvmake.artifact.elf import Library, read_library
from tvmake.errors import InputError, MachineError
from tvmake.native.ndk import GET, PAGE_BYTES, clang, find_ndk
from tvmake.native.zig import INSTALL, android_libm, script, zig_command
from tvmake.storage.temporary import temporary_directory
from tvmake.targets.options import TargetOptions

GNU_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64", "i686": "i386", "armv7a": "arm", "armv7l": "arm"}
"""Other names of processors, with the ones of ELF files and GNU triples."""

DEBIAN_PROCESSORS = "aarch64 alpha hppa i686 m68k powerpc powerpc64 powerpc64le riscv64 s390x sh4 sparc64 x86_64"
DEBIAN_TRIPLES = frozenset(
    {f"{name}-linux-gnu" for name in DEBIAN_PROCESSORS.split()} | {"arm-linux-gnueabi", "arm-linux-gnueabihf"}
)
"""Triples for which Debian 12 has cross compilers."""

OTHER_SYSTEMS = ("windows", "msvc", "mingw", "cygwin", "uefi", "darwin", "macos", "-ios", "wasm", "wasi", "emscripten")
"""Parts of triples for systems without ELF files."""

SYSTEM = "g++"

PROBE = "int tvmake_probe(int value) { return value + 1; }\n"

TIMEOUT_S = 900
"""The first time, zig compiles parts of a C library, which takes minutes on a busy machine."""


def check_system(config: TargetOptions, where: str, remedy: str = "name one of these, such as {triple}") -> None:
    """Check that packages can be linked for the system of a target's host.

    Args:
        remedy: what to do if not; ``{triple}`` is a supported triple.

    Raises:
        InputError: they cannot.
    """
    host = _host(config)
    if foreign := next((word for word in OTHER_SYSTEMS if word in (host.triple or "")), None):
        key = f"{where}.mtriple" if host is config else f"{where}.host.mtriple"
        problem = (
            f"'{host.triple}' is for another system ({foreign}): packages hold shared libraries of Linux or Android"
        )
        raise InputError(key, problem, remedy.format(triple=_gnu_triple(host.triple)))


def compiler_driver(config: TargetOptions, where: str, *, is_tried: bool = True) -> str:
    """The compiler driver that links mod.so for a target's host: a name on PATH, or a path.

    Args:
        is_tried: whether to check the processor that it compiles for, which takes zig a minute the first time; a
            compiler named by ``cc`` is always checked.

    Raises:
        InputError: packages cannot be linked for the system of the triple.
        MachineError: it is not installed, does not run, or compiles for another processor.
    """
    check_system(config, where)
    host = _host(config)
    driver = config.cc or host.cc or _toolchain_driver(config, host, where)
    if shutil.which(driver) is None:
        problem = f"the compiler '{driver}' is not installed"
        raise MachineError(where, problem, _how_to_get(driver, config, host))
    if (is_tried or config.cc or host.cc) and (driver != SYSTEM or host.triple is not None):
        # The system's compiler for this machine is checked when it links, which is early enough.
        remedy = "see what `tvmake doctor` says"
        if config.cc or host.cc:
            remedy = "name a C++ compiler that links shared libraries, or leave out `cc`"
        _check_driver(driver, host.triple, where, remedy)
    return driver


def check_library(path: Path, config: TargetOptions, where: str) -> None:
    """Check that a linked library can load on the device, by its file.

    Raises:
        MachineError: it is for another processor, or needs a newer C library than ``glibc`` or ``android_api`` allow.
    """
    host = _host(config)
    library = read_library(path)
    _check_machine(library, host.triple, where, "the linker made a library")
    glibc = config.glibc or host.glibc
    if glibc and library.glibc and library.glibc > _numbers(glibc):
        newest = ".".join(map(str, library.glibc))
        remedy = "link with an older toolchain, or with `toolchain: zig`, which takes the version from here"
        raise MachineError(f"{where}.glibc", f"mod.so needs glibc {newest}, the device may have {glibc}", remedy)
    if _is_android(host.triple):
        if "libc.so.6" in library.needed:
            raise MachineError(
                where, "mod.so is linked against glibc, and Android has none", "set `toolchain: ndk` (ANDROID_NDK_HOME)"
            )
        api = config.android_api or host.android_api
        if api and library.android_api and library.android_api > api:
            problem = f"mod.so is linked for Android API {library.android_api}, the device may have {api}"
            remedy = "leave out `cc`, so that the NDK's compiler for that level is taken"
            raise MachineError(f"{where}.android_api", problem, remedy)


def ndk_compiler(triple: str, api: int | None, where: str, environment: Mapping[str, str] = os.environ) -> str:
    """The NDK's clang++ for a triple, for the lowest API level from ``api`` on.

    Raises:
        MachineError: there is no NDK, or it lacks that compiler.
    """
    ndk = find_ndk(environment)
    if ndk is None:
        problem = f"{triple} is linked by the Android NDK or by zig; ANDROID_NDK_HOME is not set, and zig not installed"
        raise MachineError(where, problem, f"{INSTALL}, or {GET}")
    root, name = ndk
    return str(clang(root, name, _architecture(triple), api, where))


def zig_driver(triple: str, glibc: str | None, where: str) -> str:
    """A script that calls zig's C compiler for a triple; written if it does not exist.

    Raises:
        MachineError: zig is not installed.
    """
    command = zig_command()
    if command is None:
        raise MachineError(where, "zig is not installed", INSTALL)
    zig_triple = _zig_triple(triple, glibc)
    if zig_triple is None:
        raise MachineError(where, f"zig does not link for {triple} here", "leave out `toolchain`, or name another")
    link = [*command, "cc", "-target", zig_triple]
    if _is_android(triple):
        # zig does not know Android, but its musl libc.so has the same name and basic functions as Android's.
        link += ["-Wl,--no-as-needed", str(android_libm(command, zig_triple)), f"-Wl,-z,max-page-size={PAGE_BYTES}"]
    return str(script(link, f"zig-{zig_triple}"))


def driver_identity(driver: str) -> str:
    """First line of the driver's ``--version``, which identifies what can change mod.so's bytes."""
    completed = subprocess.run([driver, "--version"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    lines = (completed.stdout or completed.stderr).splitlines()
    return lines[0].strip() if lines else driver


def _host(config: TargetOptions) -> TargetOptions:
    return config if config.runs_on_cpu else config.host or TargetOptions(kind="llvm")


def _toolchain_driver(config: TargetOptions, host: TargetOptions, where: str) -> str:
    chosen = config.toolchain or host.toolchain
    triple = host.triple
    if chosen == "system" or (chosen is None and _is_here(triple)):
        return SYSTEM
    glibc, api = config.glibc or host.glibc, config.android_api or host.android_api
    if chosen == "ndk" or (chosen is None and _is_android(triple) and (find_ndk() or not zig_command())):
        return ndk_compiler(triple or "aarch64-linux-android", api, where)
    if chosen == "zig" or _is_android(triple):
        return zig_driver(triple or f"{platform.machine()}-linux-gnu", glibc, where)
    cross = f"{_gnu_triple(triple)}-g++"
    if chosen is None and shutil.which(cross) is None and zig_command() and _zig_triple(triple or "", glibc):
        return zig_driver(triple or "", glibc, where)
    return cross


def _check_driver(driver: str, triple: str | None, where: str, remedy: str) -> None:
    problem, library = _probe(driver)
    if library is None:
        raise MachineError(where, f"the compiler '{driver}' does not work: {problem}", remedy)
    _check_machine(library, triple, where, f"the compiler '{driver}' compiles")


@cache
def _probe(driver: str) -> tuple[str, Library | None]:
    """A small library linked by the driver, or the problem if linking fails."""
    with temporary_directory("tvmake-cc-") as name:
        source, library = Path(name) / "probe.c", Path(name) / "probe.so"
        source.write_text(PROBE)
        command = [driver, "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return getattr(error, "strerror", None) or f"it takes over {TIMEOUT_S} s", None
        if completed.returncode or not library.is_file():
            lines = [line for line in completed.stderr.splitlines() if line.strip()]
            return (lines[-1].strip() if lines else f"it ends with code {completed.returncode}"), None
        try:
            return "", read_library(library)
        except ValueError as error:
            return f"its output is not a shared library: {error}", None


def _check_machine(library: Library, triple: str | None, where: str, what: str) -> None:
    machine = _architecture(triple or platform.machine())
    if library.machine != machine:
        remedy = (
            f"set `cc` to a compiler for {machine}, or leave it out" if triple else "leave out `cc`, or give `mtriple`"
        )
        raise MachineError(where, f"{what} for {library.machine}, the target is for {machine}", remedy)


def _is_here(triple: str | None) -> bool:
    """Whether this machine's own compiler links for a triple."""
    if triple is None:
        return True
    return _architecture(triple) == _architecture(platform.machine()) and not _is_android(triple)


def _is_android(triple: str | None) -> bool:
    return triple is not None and "android" in triple


def _architecture(triple: str) -> str:
    first = triple.partition("-")[0]
    if first.startswith("armv"):
        return "arm"
    return GNU_ARCHITECTURES.get(first, first)


def _gnu_triple(triple: str | None) -> str:
    """The triple in the form ``aarch64-linux-gnu``, without vendor and system variants."""
    architecture = _architecture(triple or platform.machine())
    if architecture == "arm":
        return "arm-linux-gnueabihf"
    return f"{architecture.replace('i386', 'i686')}-linux-gnu"


def _zig_triple(triple: str, glibc: str | None) -> str | None:
    if "linux" not in triple:
        return None
    if _is_android(triple):
        return f"{_architecture(triple)}-linux-musl"
    zig_triple = _gnu_triple(triple).replace("i686", "x86")
    return f"{zig_triple}.{glibc}" if glibc else zig_triple


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def _how_to_get(driver: str, config: TargetOptions, host: TargetOptions) -> str:
    """The remedy for a missing compiler."""
    remedies = [f"install it (Debian: apt-get install {package})"] if (package := _debian(driver)) else []
    if config.cc or host.cc:
        remedies.append("name a compiler on PATH, or leave out `cc`" if not remedies else "leave out `cc`")
    if _zig_triple(host.triple or f"{platform.machine()}-linux-gnu", None):
        installed = "" if zig_command() else f" ({INSTALL})"
        remedies.append(f"set `toolchain: zig`{installed}{' instead of `cc`' if config.cc or host.cc else ''}")
    return ", or ".join(remedies) or "name a compiler for it: `cc`"


def _debian(driver: str) -> str | None:
    """The Debian package of a compiler, or None."""
    if driver in ("g++", "gcc", "clang"):
        return driver
    triple, _, tool = driver.rpartition("-")
    return f"{tool}-{triple.replace('_', '-')}" if triple in DEBIAN_TRIPLES and tool in ("g++", "gcc") else None
