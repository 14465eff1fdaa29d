"""The hosts that tvmake works on, and a package that starts on other systems with an error of one line."""

import subprocess
import sys

import pytest

from tests.workflow.project import ROOT
from tvmake.doctor.hosts import PYTHONS, host_problem, python_problem

LINUX_ONLY = """
import os, select, signal, sys, importlib.abc

for module, names in {
    os: ("sched_getaffinity", "sched_setaffinity", "memfd_create", "pidfd_open", "eventfd", "posix_fallocate", "posix_fadvise",
         "copy_file_range", "setresuid", "O_TMPFILE", "O_DIRECT", "O_PATH"),
    select: ("epoll",), signal: ("pidfd_send_signal", "sigtimedwait"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("spwd", "ossaudiodev", "_posixshmem_linux"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""
"""What Linux has and macOS lacks, hidden."""


@pytest.mark.parametrize("libc", [("glibc", "2.28"), ("glibc", "2.36")])
@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_linux_with_a_wheel_of_tvm_is_fine(processor: str, libc: tuple[str, str]):
    assert host_problem("Linux", processor, libc) == ("", False)


@pytest.mark.parametrize(
    "host, words, is_fatal",
    [
        (("Linux", "riscv64", ("glibc", "2.36")), "TVM has no wheel for Linux on riscv64", True),
        (("Linux", "x86_64", ("glibc", "2.17")), "TVM's wheel needs glibc 2.28, and this is 2.17", True),
        (("Windows", "AMD64", ("", "")), "does not work on Windows", True),
        (("Darwin", "x86_64", ("", "")), "TVM has no wheel for Darwin on x86_64", True),
        (("Darwin", "arm64", ("", "")), "was not tested there", False),
    ],
)
def test_another_host_is_refused_in_a_line(host: tuple, words: str, is_fatal: bool):
    problem, fatal = host_problem(*host)
    assert words in problem
    assert fatal is is_fatal
    assert "\n" not in problem


def test_pythons_without_a_wheel_are_refused_by_doctor_and_by_pip():
    oldest, newest = PYTHONS
    assert python_problem(oldest) == python_problem(newest) == ""
    assert "3.11 to 3.14" in python_problem((3, 10))
    assert "3.11 to 3.14" in python_problem((3, 15))
    text = (ROOT / "pyproject.toml").read_text()
    assert f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"' in text


@pytest.mark.parametrize("command", ["tvmake.cli", "tvmake.cli.make", "tvmake.cli.machine.doctor", "tvmake.api.model"])
def test_commands_start_without_what_only_linux_has(command: str):
    done = subprocess.run(
        [sys.executable, "-c", f"{LINUX_ONLY}\nimport {command}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
