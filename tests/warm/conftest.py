"""A warm server of its own for each test, with a probe among its entries."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tvmake.warm.client import DIRECTORY, PARENT, socket_path

SERVER = """
import sys
from tvmake.warm import entries, server
entries.PRELOADED["probe"] = ("tests.warm.probe",)
entries.ENTRIES["probe"] = "tests.warm.probe:main"
server.main("probe", int(sys.argv[1]), 60)
"""

CLIENT = """
import sys
from tvmake.warm.client import hand_over
code = hand_over("probe", "probe", sys.argv[1:])
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
def warm(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Warm]:
    """A server that is loaded or about to be."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tvmake-test-") as directory:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(socket_path(directory, "probe"))
        listener.listen(8)
        environment = {**os.environ, PARENT: str(os.getpid()), "PYTHONPATH": str(ROOT)}
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(listener.fileno())], env=environment, pass_fds=[listener.fileno()]
        )
        listener.close()
        yield Warm(Path(directory), server)
        server.kill()
        server.wait()
