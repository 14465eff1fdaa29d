"""The runtime library compiled for the stand-in of CLML, and processes that have the two."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.children import WITHOUT_TORCH
from tests.native.opencl_device import POCL, require_opencl
from tests.patience import HANG_S

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "native/tests/fake_clml"


@cache
def stand_in() -> Path:
    """The stand-in's library: this machine's OpenCL, with CLML."""
    require_opencl()
    library = Path(tempfile.mkdtemp(prefix="tvmake-clml-")) / "libfake_clml.so"
    sources = [STAND_IN / "library.cc", ROOT / "native/common/half.cc"]
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{STAND_IN}"]
    command += [f"-I{ROOT / 'native/common'}", *map(str, sources), "-o", str(library), "-l:libOpenCL.so.1", "-ldl"]
    subprocess.run(command, check=True)
    return library


@cache
def runtime() -> Path:
    """The runtime library, compiled with the stand-in's header as it would be with Qualcomm's."""
    require_opencl()
    from tvmake.native.compile import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVMAKE_CLML_SDK", str(STAND_IN))
        patch.delenv("TVMAKE_HOME", raising=False)
        return build("opencl")


def environment(**settings: str) -> dict[str, str]:
    """The environment of a process whose OpenCL is the stand-in; ``settings`` are its own (``FAKE_CLML_…``)."""
    home = str(runtime().parents[2])
    named = {"TVMAKE_OPENCL_LIBRARY": str(stand_in()), "TVMAKE_OPENCL_PLATFORM": POCL, "TVMAKE_HOME": home}
    return {**os.environ, "TVMAKE_CLML_SDK": str(STAND_IN), **named, **settings}


def run_python(code: str, *arguments: object, **settings: str) -> str:
    """What a new process prints that has the stand-in."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + code, *(str(argument) for argument in arguments)],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
