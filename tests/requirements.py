"""Requirements of tests: if one is missing, tests are skipped on a user's machine and fail in CI.

At the end of a run one line names the missing components; ``make test-tools`` installs them. As a program it prints the
Debian packages that this machine lacks: ``apt-get install $(python3 tests/requirements.py)``.
"""

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest


class Component(NamedTuple):
    """A program or library of the system."""

    is_there: Callable[[], object]
    packages: str
    """Its Debian packages."""


def _program(*names: str) -> Callable[[], bool]:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return lambda: all(shutil.which(name, path=path) for name in names)


CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of the browser's program."""

COMPONENTS = {
    "make": Component(_program("make"), "make"),
    "git": Component(_program("git"), "git"),
    "cc": Component(_program("cc"), "gcc libc6-dev"),
    "g++": Component(_program("g++"), "g++"),
    "cmake": Component(_program("cmake"), "cmake"),
    "javac": Component(_program("javac", "java"), "openjdk-17-jdk-headless"),
    "kotlinc": Component(_program("kotlinc"), "kotlin"),
    "aapt": Component(
        lambda: _program("aapt")() and Path("/usr/share/android-framework-res/framework-res.apk").exists(),
        "aapt android-framework-res",
    ),
    "doctest": Component(Path("/usr/include/doctest/doctest.h").exists, "doctest-dev"),
    "aarch64-linux-gnu-g++": Component(_program("aarch64-linux-gnu-g++"), "g++-aarch64-linux-gnu"),
    "qemu-aarch64-static": Component(_program("qemu-aarch64-static"), "qemu-user-static"),
    "PoCL": Component(Path("/etc/OpenCL/vendors/pocl.icd").exists, "pocl-opencl-icd ocl-icd-libopencl1"),
    "sshd": Component(_program("sshd"), "openssh-server"),
    "ssh-keygen": Component(_program("ssh-keygen"), "openssh-client"),
    "adb": Component(_program("adb"), "adb"),
    "Slurm": Component(_program("slurmctld", "slurmd", "sbatch", "squeue"), "slurmctld slurmd slurm-client"),
    "Grid Engine": Component(
        _program("sge_qmaster", "sge_execd", "qsub"), "gridengine-master gridengine-exec gridengine-client"
    ),
    "munge": Component(_program("munged"), "munge"),
    "fish": Component(_program("fish"), "fish"),
    "tcsh": Component(_program("tcsh"), "tcsh"),
    "setpriv and unshare": Component(_program("setpriv", "unshare"), "util-linux"),
    "ps": Component(_program("ps"), "procps"),
    "Chromium": Component(lambda: any(map(shutil.which, CHROMIUM)), "chromium-headless-shell"),
    "debootstrap": Component(_program("debootstrap"), "debootstrap"),
    "chattr": Component(_program("chattr"), "e2fsprogs"),
}


INSTALLERS = ("apt-get install ", "pip install ", "envs/")
"""Beginnings of commands whose work ``make test-tools`` does."""


def need(*components: str) -> None:
    """Skip the test unless these of :data:`COMPONENTS` exist; with CI=true fail it."""
    for name in components:
        require(COMPONENTS[name].is_there(), hint(name))


def hint(component: str) -> str:
    """The message of :func:`require` for one of :data:`COMPONENTS`."""
    return f"{component}: apt-get install {COMPONENTS[component].packages}"


def need_module(name: str, install: str) -> None:
    """The same for a Python module.

    Args:
        install: the command that installs it.
    """
    require(importlib.util.find_spec(name.partition(".")[0]), f"{name}: {install}")


def require(condition: object, needed: str) -> None:
    """Skip the test unless ``condition`` holds; with CI=true fail it, so that no test is skipped unnoticed.

    Args:
        needed: what it is, and after a colon the command that installs it. The same component has the same hint.
    """
    import pytest

    if condition:
        return
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"needs {needed}", pytrace=False)
    pytest.skip(f"needs {needed}")


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Print in one line how many tests were skipped, what they need, and the command that installs it."""
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    ]
    lacking = Counter(name for reason in reasons if (name := _installable(reason)))
    lines = []
    if lacking:
        names = ", ".join(name for name, _ in lacking.most_common())
        lines.append(f"skipped for lack of tools: {lacking.total()}; `make test-tools` installs {names}")
    if others := len(reasons) - lacking.total():
        lines.append(f"not for this machine: {others} (-rs says why)")
    if lines:
        terminalreporter.write_line("; ".join(lines))


def _installable(reason: str) -> str | None:
    """The component that a skipped test lacks, if ``make test-tools`` installs it."""
    name, _, command = reason.removeprefix("needs ").partition(": ")
    return name if command.startswith(INSTALLERS) else None


if __name__ == "__main__":
    print(*(component.packages for component in COMPONENTS.values() if not component.is_there()))
