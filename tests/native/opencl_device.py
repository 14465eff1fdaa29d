"""PoCL, an OpenCL device made of this machine's CPU, with the runtime library loaded into this process."""

import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tests.children import WITHOUT_TORCH
from tests.patience import HANG_S
from tests.requirements import need, require

ROOT = Path(__file__).resolve().parents[2]
POCL = "Portable Computing Language"
TYPES = {
    "handle": (3, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
}
"""DLPack's code and bits of the element types that tests pass to kernels."""


def require_opencl() -> None:
    """Need PoCL, and what compiles the runtime library."""
    need("PoCL", "cmake", "g++")


def require_entry_point() -> None:
    """Need an installation of tvmake that tells TVM of its runtime library."""
    values = [entry.value for entry in entry_points(group="tvm.backends")]
    require("tvmake.native.backend:autoload" in values, "the current tvmake, installed: pip install --editable .")


@cache
def library() -> Path:
    """The runtime library, loaded into this process, which sees PoCL's devices only."""
    require_opencl()
    os.environ.setdefault("TVMAKE_OPENCL_PLATFORM", POCL)
    from tvmake.native.backend import opencl_library

    return opencl_library()


def loaded() -> Any:
    """TVM with the runtime library."""
    library()
    import tvm

    return tvm


def kernels(source: str, **signatures: tuple[Sequence[str], Sequence[str]]) -> Any:
    """A module of OpenCL C kernels, each with its argument types and launch tags, as a package would carry it."""
    tvm = loaded()
    return tvm.get_global_func("ffi.Module.load_from_bytes.opencl")(module_bytes(source, signatures))


def module_bytes(source: str, signatures: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> bytes:
    """What TVM writes for such a module: see facts on its format in docs/concepts/opencl-runtime.md."""
    data = _text("cl") + struct.pack("<Q", len(signatures))
    for name, (types, tags) in signatures.items():
        data += _text(name) + _text(name) + struct.pack("<Q", len(types))
        data += b"".join(struct.pack("<BBH", *TYPES[kind], 1) for kind in types)
        data += struct.pack("<Q", len(tags)) + b"".join(_text(tag) for tag in tags)
        data += struct.pack("<Q", len(types)) + struct.pack("<i", 0) * len(types)
    return data + _text(source)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def environment(**variables: str) -> dict[str, str]:
    """This environment with PoCL alone, the library where it was built whatever home a test has set, and these variables."""
    home = str(library().parents[2])
    return {**os.environ, "TVMAKE_HOME": home, "TVMAKE_OPENCL_PLATFORM": POCL, **variables}


def run_python(code: str, *arguments: object, timeout_s: float = HANG_S, **variables: str) -> str:
    """What a new process prints; for its variables see :func:`environment`."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + code, *(str(argument) for argument in arguments)],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
