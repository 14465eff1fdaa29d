"""Android's NDK: its directory, its compilers, and the toolchain for tvmake's programs.

The programs need only Android's ``libc``, ``libm`` and ``libdl``. They contain TVM's runtime, compiled from the sources in its
wheels, the OpenCL runtime, and the NDK's C++ library.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.native.compile import build_part
from tvmake.native.parts import TVM_RUNTIME, Toolchain

VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
"""Variables with an NDK's directory; the first that is set counts."""

SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
"""Variables with an SDK's directory, which has NDKs by version in ``ndk``."""

STUDIO = ("Android/Sdk", "Library/Android/sdk")
"""Android Studio's SDK, relative to the home directory: on Linux, on macOS."""

OLDEST_API = 24
"""Android 7, the first version with Vulkan and OpenCL 2.0 drivers on common phones; NDK r26 and later begin at 21."""

OLDEST_REVISION = 25
"""The first NDK whose C++ library has the parts of C++17 that TVM's headers use."""

GET = "download it from https://developer.android.com/ndk/downloads and set ANDROID_NDK_HOME to its directory"

PAGE_BYTES = 16384
"""The largest page size of Android devices, since Android 15."""


def find_ndk(environment: Mapping[str, str] = os.environ) -> tuple[Path, str] | None:
    """The NDK's directory, and the variable or program that names it; None without an NDK.

    Variables have precedence, then the newest NDK of the SDK or Android Studio.
    """
    for name in VARIABLES:
        if environment.get(name):
            return Path(environment[name]), name
    sdks = [(Path(environment[name]), name) for name in SDK_VARIABLES if environment.get(name)]
    if home := environment.get("HOME"):
        sdks += [(Path(home) / directory, "Android Studio") for directory in STUDIO]
    for sdk, name in sdks:
        versions = [path for path in sdk.glob("ndk/*") if re.fullmatch(r"\d+(\.\d+)*", path.name)]
        if versions:
            return max(versions, key=lambda path: [int(part) for part in path.name.split(".")]), name
    return None


def revision(root: Path) -> str | None:
    """An NDK's version in its ``source.properties``, such as ``26.1.10909125``; None if unknown."""
    try:
        text = (root / "source.properties").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(r"^Pkg\.Revision\s*=\s*([\d.]+)", text, re.MULTILINE)
    return match[1] if match else None


def clang(root: Path, name: str, architecture: str, api: int | None, where: str) -> Path:
    """An NDK's clang++ for a processor, of its lowest API level from ``api`` on.

    Args:
        name: the variable or program that names it, for messages.
        architecture: as :mod:`tvmake.artifact.elf` names it.
        api: the device's API level; default: :data:`OLDEST_API`.

    Raises:
        MachineError: the NDK has no such compiler.
    """
    prefix = {"arm": "armv7a-linux-androideabi", "i386": "i686-linux-android"}.get(
        architecture, f"{architecture}-linux-android"
    )
    levels: dict[int, Path] = {}
    for compiler in root.glob(f"toolchains/llvm/prebuilt/*/bin/{prefix}*-clang++"):
        if match := re.fullmatch(rf"{prefix}(\d+)-clang\+\+", compiler.name):
            levels[int(match[1])] = compiler
    lowest = api or OLDEST_API
    fitting = [level for level in sorted(levels) if level >= lowest]
    if not fitting:
        has = f"its levels end at {max(levels)}" if levels else f"it has no compiler for {architecture}"
        raise MachineError(
            where, f"the NDK at {name}={root} cannot compile for Android API {lowest}: {has}", "install another NDK"
        )
    # An NDK has no compiler for levels below its oldest, which is then the nearest.
    return levels[fitting[0]]


def toolchain(processor: str, api: int | None = None, progress: Callable[[str], None] | None = None) -> Toolchain:
    """The NDK for a processor and API level, with TVM's runtime, which takes minutes to compile on the first call.

    Raises:
        MachineError: there is no NDK, it is too old or lacks the compiler, or TVM's sources do not compile.
    """
    where = f"programs for android on {processor}"
    ndk_found = find_ndk()
    if ndk_found is None:
        raise MachineError(
            where, "no Android NDK was found: ANDROID_NDK_HOME is not set, and Android/Sdk/ndk does not exist", GET
        )
    root, name = ndk_found
    if not root.is_dir():
        raise MachineError(where, f"{name}={root} is not a directory", GET)
    version = revision(root)
    if version is not None and int(version.partition(".")[0]) < OLDEST_REVISION:
        raise MachineError(
            where, f"the NDK at {name}={root} is r{version}; the oldest supported revision is r{OLDEST_REVISION}", GET
        )
    compiler = clang(root, name, processor, api, where)
    level = int(compiler.name.removesuffix("-clang++").rpartition("android")[2])
    tools = {"CMAKE_AR": "llvm-ar", "CMAKE_RANLIB": "llvm-ranlib", "CMAKE_STRIP": "llvm-strip"}
    # mod.so uses TVM's functions of the program that loads it, so the program exports them, and a library is global.
    page = f"-static-libstdc++ -Wl,-z,max-page-size={PAGE_BYTES}"
    bare = Toolchain(
        name=f"{processor}-linux-android{level}",
        compiler=str(compiler),
        system="Linux",  # CMake's "Android" would search for an NDK by its own rules
        processor=processor,
        definitions=(
            *(f"{variable}={compiler.with_name(tool)}" for variable, tool in tools.items()),
            f"CMAKE_EXE_LINKER_FLAGS={page} -Wl,--export-dynamic -pie",
            f"CMAKE_SHARED_LINKER_FLAGS={page} -Wl,-z,global",
        ),
    )
    archive = build_part(TVM_RUNTIME, bare, progress)
    return Toolchain(**{**vars(bare), "archive": str(archive), "directories": ("opencl", "common", "tvm_support")})
