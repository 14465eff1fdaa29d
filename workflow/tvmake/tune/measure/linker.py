"""Linking candidates quickly: they are many, small, and alike."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.support import cc as tvm_cc

LIBRARIES = ("libgcc.a", "libm.so.6")
"""What kernels call: float16 conversions, mathematics. Every process that loads them has the C library already."""


class Linker:
    """Makes shared libraries for the machine that a compiler driver compiles for.

    Where the driver is GCC's and links against glibc, the linker itself is called: 4 ms instead of the 18 that the
    driver takes with its helpers, plugins and libraries, of the 300 ms that building a candidate takes.

    Args:
        driver: ``g++``, ``aarch64-linux-gnu-g++``, an NDK's ``clang++`` …
    """

    def __init__(self, driver: str):
        self._driver = driver
        self._direct = _direct_command(driver)

    def link(self, module: "tvm.runtime.Module", destination: Path) -> None:
        """Write a module as a shared library.

        Raises:
            RuntimeError: the linker fails.
        """
        module.export_library(str(destination), fcompile=self._create)

    def _create(self, output: str, objects: Sequence[str], **options: Any) -> None:
        if self._direct is None or not all(str(name).endswith(".o") for name in objects):
            tvm_cc.create_shared(output, list(objects), cc=self._driver, **options)
            return
        command, libraries = self._direct
        done = subprocess.run(
            [*command, "-o", output, *objects, *libraries], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr or f"{command[0]} ended with code {done.returncode}")


def _direct_command(driver: str) -> tuple[list[str], list[str]] | None:
    linker = _said(driver, "-print-prog-name=ld")
    libraries = [_said(driver, f"-print-file-name={name}") for name in LIBRARIES]
    # A driver repeats the names of what it does not find.
    if all(Path(name).is_absolute() and Path(name).exists() for name in [linker, *libraries]):
        return [linker, "-shared"], libraries
    return None


def _said(driver: str, question: str) -> str:
    done = subprocess.run([driver, question], capture_output=True, text=True, check=False)
    return done.stdout.strip()
