"""The project for faults: the tuned one of the tests, with its own cache and a mark on its processes."""

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from comparing import ROOT
from killing import MARK
from tests.workflow import preloaded
from tests.workflow.project import TRIALS, Project, changed_weights, tuned_project

from tvmake.artifact import stage_json
from tvmake.tune.receipts import Receipt

TUNED = "results/digits/float32/tuned"
ROUND = "results/tuning/tuned/round1"

LIMIT_S = 400.0
"""For one command, before it counts as hanging: through Slurm one takes a minute or two."""


class FaultyProject(Project):
    """A directory whose records, cache and log lie beside it."""

    def __init__(self, directory: Path, name: str = "project"):
        super().__init__(directory / name)
        self.workspace, self.home, self.results = directory, directory / "home", self.directory / "results"
        self.log = directory / f"{name}.log"
        self.mark = uuid.uuid4().hex
        self.disturbances: dict[str, str] = {}
        """Environment variables that disturb its commands."""

    def create(self, weights: Path, more_trials: int = 0) -> None:
        """Write sources and config."""
        tuned_project(self.directory)
        shutil.copy(weights, self.directory / "digits.onnx")
        self.edit("cache", "../cache")
        self.ask_for(more_trials)

    def ask_for(self, more_trials: int) -> None:
        """Have each kernel get this many trials more than the undisturbed project's."""
        self.edit("targets.tuned.tuning.trials_per_kernel", TRIALS + more_trials)

    def environ(self) -> dict[str, str]:
        """What its commands run in."""
        temporary = self.workspace / "tmp"
        temporary.mkdir(exist_ok=True)
        return {**super().environ(), "TMPDIR": str(temporary), MARK: self.mark, **self.disturbances}

    def start(self, *arguments: str, command: tuple[str, ...] = ("tvmake", "make")) -> subprocess.Popen[str]:
        """``tvmake make`` in a session of its own, as a user's shell starts it."""
        with self.log.open("a") as said:
            return subprocess.Popen(
                [*command, *arguments],
                cwd=self.directory,
                env=self.environ(),
                stdout=said,
                stderr=said,
                text=True,
                start_new_session=True,
            )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of tvmake's, from a process that has loaded Snakemake; what it says goes to the log as well."""
        done = preloaded.run([*arguments], self.directory, self.environ())
        with self.log.open("a") as said:
            said.write(done.stderr)
        return done

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``tvmake make``, likewise."""
        return self.command("make", *arguments)

    def said(self) -> str:
        """What its runs printed."""
        return self.log.read_text(errors="replace")

    def fixed(self) -> dict[str, bytes]:
        """The results whose bytes the inputs fix."""
        return self.hermetic("results/*", "results/digits/**/*")

    def receipts(self) -> list[Receipt]:
        """What its tuning jobs left."""
        files = sorted((self.directory / ROUND).glob("?" * 64 + ".json"))
        return [stage_json.load(Receipt, file) for file in files]


class References:
    """The project as undisturbed runs leave it, with either network; made once."""

    def __init__(self, directory: Path):
        self.weights = [directory / "old.onnx", directory / "new.onnx"]
        shutil.copy(ROOT / "resources" / "digits.onnx", self.weights[0])
        changed_weights(self.weights[0], self.weights[1])
        self.workspace = directory / "reference"
        project, changed = FaultyProject(self.workspace), FaultyProject(self.workspace, "changed")
        project.create(self.weights[0])
        changed.create(self.weights[1])
        self.fixed = [_made(project), _made(changed)]
        shutil.rmtree(changed.directory)


def _made(project: FaultyProject) -> dict[str, bytes]:
    if code := project.start().wait():
        sys.exit(f"without a fault: exit code {code}\n{project.said()[-1500:]}")
    return project.fixed()
