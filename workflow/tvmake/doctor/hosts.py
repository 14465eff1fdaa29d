"""The hosts that TVM's wheels exist for, and those that tvmake works on.

Read from the package index for apache-tvm 0.27.0.post1 (Linux with glibc 2.28 on x86_64 and aarch64, macOS 11 on arm64, Windows on
x86_64) and apache-tvm-ffi 0.1.14.post0 (Python 3.9 to 3.14), on 2026-11-30.
"""

import platform
import sys

PYTHONS = ((3, 11), (3, 14))
"""The oldest and the newest Python: Snakemake 9 needs 3.11."""

PROCESSORS = {"Linux": ("x86_64", "aarch64"), "Darwin": ("arm64",), "Windows": ("AMD64",)}
"""Processors with a wheel of TVM, by system."""

GLIBC = (2, 28)

UNTESTED = "TVM has a wheel for macOS, but tvmake was not tested there: use Linux, or a container"


def python_problem(version: tuple[int, int] = sys.version_info[:2]) -> str:
    """Why tvmake does not work with this Python; empty if it does."""
    oldest, newest = PYTHONS
    if oldest <= version <= newest:
        return ""
    return f"tvmake needs Python {'.'.join(map(str, oldest))} to {'.'.join(map(str, newest))}, for which TVM has wheels"


def host_problem(
    system: str | None = None, processor: str | None = None, libc: tuple[str, str] | None = None
) -> tuple[str, bool]:
    """Why tvmake does not work, or was not tested, on this host, and whether it cannot work there; empty if it works.

    Args:
        system: as :func:`platform.system` returns it; this host's by default, like the others.
        processor: as :func:`platform.machine` returns it.
        libc: the C library's name and version.
    """
    system, processor = system or platform.system(), processor or platform.machine()
    if processor not in PROCESSORS.get(system, ()):
        known = ", ".join(f"{name} on {' or '.join(names)}" for name, names in PROCESSORS.items() if name == "Linux")
        return f"TVM has no wheel for {system} on {processor}: tvmake works on {known}", True
    if system == "Windows":
        return "tvmake does not work on Windows: use the Windows Subsystem for Linux", True
    if system == "Darwin":
        return UNTESTED, False
    name, version = libc or platform.libc_ver()
    if name == "glibc" and tuple(map(int, version.split(".")[:2])) < GLIBC:
        return (
            f"TVM's wheel needs glibc {GLIBC[0]}.{GLIBC[1]}, and this is {version}: use a newer system, or a container",
            True,
        )
    return "", False
