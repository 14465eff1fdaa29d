"""Link many small candidates quickly."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.support import cc as tvm_cc

LIBRARIES = ("libgcc.a", "libm.so.6")
"""Libraries of kernels: float16 conversions, mathematics. Every process that loads kernels already has the C library."""


class Linker:
    """Link shared libraries for the machine of a compiler driver.

    For GCC's drivers with glibc, the linker is called directly: this takes 4 ms instead of 18 ms with the driver's helpers,
    plugins and libraries, of 300 ms for a candidate.

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
    linker = _driver_output(driver, "-print-prog-name=ld")
    libraries = [_driver_output(driver, f"-print-file-name={name}") for name in LIBRARIES]
    # A driver prints the name of a file that it does not find.
    if all(Path(name).is_absolute() and Path(name).exists() for name in [linker, *libraries]):
        return [linker, "-shared"], libraries
    return None


def _driver_output(driver: str, question: str) -> str:
    done = subprocess.run([driver, question], capture_output=True, text=True, check=False)
    return done.stdout.strip()
