"""Programs in forks of a process that has loaded TVM's runtime with the OpenCL library, and has not opened a driver."""

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache

from tests.native.opencl_device import ROOT, environment
from tests.patience import HANG_S
from tvmake.process.forkserver.client import DIRECTORY, entry_command
from tvmake.process.forkserver.pool import Pool
from tvmake.process.forkserver.preload import Preload

KIND = "opencl"

_VARIABLES = {
    "TVM_USE_RUNTIME_LIB": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
}


def run_forked(code: str, *arguments: object, **variables: str) -> str:
    """What a program prints; like :func:`tests.native.opencl_device.run_python`, for programs whose subject is not the start."""
    done = subprocess.run(
        entry_command(KIND, f"{__name__}:main", [code, *map(str, arguments)]),
        cwd=ROOT,
        env={
            **environment(**_VARIABLES, **variables),
            DIRECTORY: _servers(),
        },  # the program's too, if there is no server
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def main(arguments: list[str]) -> int:
    """In the fork: run a program with its arguments."""
    code, *rest = arguments
    sys.argv = ["-c", *rest]
    exec(code, {"__name__": "__main__"})
    return 0


@cache
def _servers() -> str:
    directory = tempfile.TemporaryDirectory(prefix="tvmake-test-")
    modules = ("numpy", "tvm", "tests.native.opencl_device")
    pool = Pool(directory.name, {KIND: Preload(modules, environment(**_VARIABLES))}, HANG_S)
    atexit.register(directory.cleanup)
    atexit.register(pool.close)
    return directory.name
