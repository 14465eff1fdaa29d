"""A warm server of its own for each test, with a probe among its entries."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tvmake.process.forkserver.client import DIRECTORY, socket_path
from tvmake.process.parent_death import PARENT_VARIABLE

SERVER = "tvmake.process.forkserver.server"

CLIENT = """
import sys
from tvmake.process.forkserver.client import hand_over
code = hand_over("probe", "tests.process.probe:main", sys.argv[1:])
sys.exit("nothing was handed over" if code is None else code)
"""

ROOT = Path(__file__).resolve().parents[2]


class Warm:
    """A server and its clients."""

    def __init__(self, directory: Path, server: subprocess.Popen[bytes]):
        self.environment = {**os.environ, DIRECTORY: str(directory)}
        self.server = server

    def client(self, *arguments: str, **options: object) -> subprocess.Popen[str]:
        """Start a client."""
        command = [sys.executable, "-c", CLIENT, *arguments]
        given = {"env": self.environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, **given)  # type: ignore[call-overload]


@pytest.fixture
def warm(request: pytest.FixtureRequest) -> Iterator[Warm]:
    """A server that is loaded or about to be, with one more module if there is a parameter."""
    import tempfile

    modules = [request.param] if hasattr(request, "param") else []
    with tempfile.TemporaryDirectory(prefix="tvmake-test-") as directory:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(socket_path(directory, "probe"))
        listener.listen(8)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid()), "PYTHONPATH": path}
        server = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                SERVER,
                "probe",
                str(listener.fileno()),
                "60",
                "tests.process.probe",
                *modules,
            ],
            env=environment,
            pass_fds=[listener.fileno()],
        )
        listener.close()
        yield Warm(Path(directory), server)
        server.kill()
        server.wait()
