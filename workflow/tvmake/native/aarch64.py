"""TVM's runtime for 64-bit Arm Linux, from the wheels of the installed version.

A board needs three libraries: the runtime, its FFI library, and additional functions, such as filling tensors with random
values for tuning. The programs are linked with them on this machine, with Debian's cross compiler.
"""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from tvmake.errors import MachineError
from tvmake.native.parts import Toolchain, root
from tvmake.process.python import python_command
from tvmake.storage.files import atomic_directory, digest_file

WHERE = "aarch64 runtime"

PLATFORM, PYTHON = "manylinux_2_28_aarch64", "3.11"
"""The wheels' platform; the libraries in them do not depend on Python."""

DOWNLOAD_S = 900.0
"""The time limit for 98 MB on a slow line; most of them are the compiler, which is not kept."""

COMPILER = "aarch64-linux-gnu-g++"


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI.

    Attributes:
        name, version: the distribution's.
        sha256: of the file for aarch64; also listed in envs/requirements.lock.
        libraries: the files that a device needs.
    """

    name: str
    version: str
    sha256: str
    libraries: tuple[str, ...]


WHEELS = (
    Wheel(
        "apache-tvm",
        "0.27.0.post1",
        "4acfdb7653e4e1ba7a707bdf2833db72eb8fda7d04d99141f2a4e1da43171fb7",
        ("tvm/lib/libtvm_runtime.so", "tvm/lib/libtvm_runtime_extra.so"),
    ),
    Wheel(
        "apache-tvm-ffi",
        "0.1.14.post0",
        "d1a011a0743acb88ffc650c70bfb1376fa90cb7196b042598c6d0c1e690ce185",
        ("tvm_ffi/lib/libtvm_ffi.so",),
    ),
)


def libraries() -> Path:
    """The directory of TVM's libraries for aarch64, downloaded on the first call.

    Raises:
        MachineError: another version of TVM is installed here, or the download failed.
    """
    for wheel in WHEELS:
        if (installed := metadata.version(wheel.name)) != wheel.version:
            problem = f"{wheel.name} {installed} is installed; tvmake knows the runtime of {wheel.version} only"
            remedy = (
                f"pip install {wheel.name}=={wheel.version}, or compile on the device itself (docs/guides/native.md)"
            )
            raise MachineError(WHERE, problem, remedy)
    key = hashlib.sha256("".join(wheel.sha256 for wheel in WHEELS).encode()).hexdigest()
    directory = root() / f"tvm-aarch64-{key}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if not directory.is_dir():
            with (
                atomic_directory(directory) as extracted,
                tempfile.TemporaryDirectory(dir=extracted.parent) as downloads,
            ):
                for wheel in WHEELS:
                    _extract(_download(wheel, Path(downloads)), wheel, extracted)
    return directory


def toolchain() -> Toolchain:
    """The cross compiler for aarch64, with the libraries to link.

    Raises:
        MachineError: as :func:`libraries`.
    """
    return Toolchain("aarch64", COMPILER, "Linux", "aarch64", (str(libraries()),))


def _download(wheel: Wheel, directory: Path) -> Path:
    requirements = directory / f"{wheel.name}.txt"
    requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = python_command("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    command += ["--only-binary=:all:", "--platform", PLATFORM, "--python-version", PYTHON]
    command += ["--require-hashes", "--requirement", str(requirements), "--dest", str(directory)]
    try:
        finished = subprocess.run(
            command, env={**os.environ, "PIP_NO_INPUT": "1"}, capture_output=True, text=True, timeout=DOWNLOAD_S
        )
    except subprocess.TimeoutExpired:
        raise MachineError(
            WHERE, f"{wheel.name} was not downloaded within {DOWNLOAD_S:g} s", "try again with a faster network"
        ) from None
    wheels = list(directory.glob(f"{wheel.name.replace('-', '_')}-{wheel.version}-*.whl"))
    if finished.returncode or not wheels:
        lines = [line for line in finished.stderr.splitlines() if line.strip()]
        problem = f"pip cannot download {wheel.name}: {lines[-1].strip() if lines else 'no message'}"
        remedy = "see whether `pip download` works here, or copy the cache of another machine (TVMAKE_HOME)"
        raise MachineError(WHERE, problem, remedy)
    if digest_file(wheels[0]) != wheel.sha256:
        raise MachineError(WHERE, f"{wheels[0].name} has another sha256 than expected", "see which index pip used")
    return wheels[0]


def _extract(archive: Path, wheel: Wheel, directory: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in wheel.libraries:
            path = directory / Path(member).name
            path.write_bytes(opened.read(member))
            path.chmod(0o755)
