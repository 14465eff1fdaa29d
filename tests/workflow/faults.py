"""Real faults at exact points: processes that die or stop just before a file is renamed.

A ``sitecustomize`` on PYTHONPATH listens to the interpreter's own audit events, so that the code under test runs as it
is and a kill is a kill.
"""

import atexit
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from tests.patience import wait_until
from tests.workflow.project import Project

POINTS = "TVMAKE_FAULTS"
"""The variable for the directory with the faults of a project."""

SITE = f"""
import os, signal, sys, time
from urllib.parse import quote

def listen(event, arguments):
    if event != "os.rename" or getattr(sys, "argv", [])[1:2] == ["make"]:  # faults are those of steps
        return
    point = os.path.join(os.environ.get("{POINTS}", ""), quote(os.fspath(arguments[1]), safe=""))
    try:
        with open(point) as file:
            action = file.read()
        os.rename(point, point + ".reached")
    except OSError:
        return
    with open(point + ".pid", "w") as file:
        file.write(str(os.getpid()))
    if action == "kill worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "kill parent":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)  # ends with its parent long before
    elif action == "pause":
        while os.path.exists(point + ".reached"):
            time.sleep(0.05)

sys.addaudithook(listen)
"""

Action = Literal["kill worker", "kill parent", "pause"]


@cache
def site() -> str:
    """The directory with the listener."""
    directory = tempfile.TemporaryDirectory(prefix="tvmake-faults-")
    atexit.register(directory.cleanup)
    Path(directory.name, "sitecustomize.py").write_text(SITE)
    return directory.name


class Faults:
    """Faults set up for a project's commands; each happens once."""

    def __init__(self, project: Project, directory: Path):
        self.project = project
        self.points = directory / "points"
        self.points.mkdir(parents=True)
        project.python_path = site()
        project.environment |= {"PYTHONPATH": site(), POINTS: str(self.points)}

    def before(self, file: str, action: Action) -> None:
        """Arrange for ``action`` when ``file`` is complete and about to be renamed."""
        self._point(file).write_text(action)

    @property
    def pending(self) -> set[str]:
        """Faults that have not happened yet, as quoted paths."""
        return {path.name for path in self.points.iterdir() if path.suffix not in (".reached", ".pid")}

    def wait(self, file: str) -> None:
        """Wait until a process has reached the fault at ``file``."""
        wait_until(self._beside(file, ".pid").exists)

    def process(self, file: str) -> int:
        """The process the fault at ``file`` happened in."""
        return int(self._beside(file, ".pid").read_text())

    def release(self, file: str) -> None:
        """Resume a paused process."""
        self._beside(file, ".reached").unlink()

    def end(self) -> None:
        """Run later commands without the listener."""
        for name in ("PYTHONPATH", POINTS):
            del self.project.environment[name]

    def _point(self, file: str) -> Path:
        return self.points / quote(file, safe="")

    def _beside(self, file: str, suffix: str) -> Path:
        point = self._point(file)
        return point.with_name(point.name + suffix)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between open and read
        return False


@contextmanager
def started(project: Project, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A command in its own process group, as a shell starts one; all its processes end with the block."""
    process = subprocess.Popen(
        command,
        cwd=project.directory,
        env=project.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
