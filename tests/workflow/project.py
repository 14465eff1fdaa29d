"""A small project in its own directory, made by the real workflow."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from tests.patience import HANG_S
from tests.process.shared import OF_USERS
from tests.workflow import preloaded

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent

CONFIG: dict[str, Any] = {
    "models": {
        "digits": {
            "source": "digits.onnx",
            "dataset": {"path": "digits-test.npz", "limit": 16, "preprocess": {"scale": 0.0625}},
            "goals": {"top1_drop": 0.1},
        }
    },
    "precisions": ["float32", "float16"],
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
    "benchmark": {"repeat": 3, "warmup": 1},
}


TRIALS = 4
"""Number of candidates for each kernel of a tuned project."""

READ_LATE = ("TVMAKE_", "AWS_", "ANDROID_", "ADB_")
"""Prefixes of variables that do not affect how libraries load."""

SHARED_BY = {"import": 1, "reference": 1, "self_test": 1, "transform": 2}
"""The number of a variant's names (model, precision and target) that a stage's jobs depend on, if it is not all three."""

MEASURED = (
    "receipt.json",
    "numerics.json",
    "latency.json",
    "selection.json",
    "summary.json",
    "summary.csv",
    "index.html",
)
MEASURED_DIRECTORIES = ("best", "history")
"""Results that contain times of this run."""


class Project:
    """A directory with a config, run through the commands a user would type."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.environment: dict[str, str] = {}
        self.python_path: str | None = None
        """A PYTHONPATH that many projects have: the servers with it are shared, as those without one are."""

    @property
    def config(self) -> dict[str, Any]:
        """The current config."""
        return yaml.safe_load((self.directory / "tvmake.yaml").read_text())

    def edit(self, key: str, value: Any) -> None:
        """Set one dotted key of the config; None removes it."""
        config = self.config
        section = config
        *parents, last = key.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        if value is None:
            section.pop(last, None)
        else:
            section[last] = value
        self.write_config(config)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the config."""
        (self.directory / "tvmake.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))

    def environ(self) -> dict[str, str]:
        """The environment commands run in: this interpreter's scripts first."""
        kept = {name: value for name, value in os.environ.items() if name not in OF_USERS}
        paths = [self.environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
        return {
            **kept,
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
            "TVMAKE_HOME": str(self.directory.parent / "home"),
            "COLUMNS": "200",
            **self.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command here: one of tvmake's in a fork of a process that has loaded it."""
        if command[0] == "tvmake" and self.environment.get("PYTHONPATH") in (None, self.python_path):
            is_read_late = all(name.startswith((*READ_LATE, "PYTHONPATH")) for name in self.environment)
            return preloaded.run([*command[1:]], self.directory, self.environ(), warm=is_read_late)
        return self.run_process(*command)

    def run_process(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command here in a separate process, as a shell does."""
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line as a shell does; a plain command of tvmake's as ``run`` does."""
        is_plain = line.startswith("tvmake ") and not set(line) & set("|&;<>~$*")
        return self.run(*shlex.split(line)) if is_plain else self.run("sh", "-c", line)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``tvmake make``."""
        return self.run("tvmake", "make", *arguments)

    def planned_rules(self, *arguments: str) -> dict[str, int]:
        """What ``tvmake make --dry-run`` would run: jobs by rule."""
        done = self.make("--dry-run", *arguments)
        assert done.returncode == 0, done.stderr
        counts: dict[str, int] = {}
        for rule in re.findall(r"^would (\w+)", done.stderr, flags=re.MULTILINE):
            counts[rule] = counts.get(rule, 0) + 1
        assert counts or "nothing to do" in done.stderr, done.stderr
        return counts

    def unmade_jobs(self) -> dict[str, int]:
        """The jobs that ``tvmake status`` reports as not made, by stage, for a project without tuning.

        It goes by the plan, without Snakemake; tests/workflow/test_reruns.py holds that both say the same.
        """
        done = self.run("tvmake", "status", "--json")
        assert done.returncode == 0, done.stderr
        jobs: dict[tuple[str, str], int] = {}
        for name, variant in json.loads(done.stdout)["variants"].items():
            for stage, states in variant["stages"].items():
                # Variants of a model, or of a model and a precision, share these.
                shared = SHARED_BY.get(stage, 3)
                owner = "/".join(name.split("/")[:shared])
                jobs[stage, owner] = sum(count for state, count in states.items() if state != "made")
        counts: dict[str, int] = {}
        for (stage, _), count in jobs.items():
            counts[stage] = counts.get(stage, 0) + count
        return {stage: count for stage, count in counts.items() if count}

    def files(self, pattern: str = "results/**/*") -> dict[str, bytes]:
        """Contents of matching files by relative path."""
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for path in sorted(self.directory.glob(pattern))
            if path.is_file()
        }

    def hermetic(self, *patterns: str) -> dict[str, bytes]:
        """The results whose bytes are fixed by the inputs."""
        files = {path: data for pattern in patterns for path, data in self.files(pattern).items()}
        return {
            path: data
            for path, data in files.items()
            if Path(path).name not in MEASURED
            and not {*MEASURED_DIRECTORIES, ".snakemake_timestamp"} & {*Path(path).parts}
        }

    def result(self, path: str) -> Any:
        """A JSON result."""
        return json.loads((self.directory / path).read_text())

    def leftovers(self) -> list[str]:
        """Temporary files that were not cleaned up."""
        return [str(path) for path in self.directory.rglob(".tvmake-*")]


def model_project(directory: Path, name: str = "digits.onnx") -> Project:
    """A directory with the digits model and nothing else.

    Args:
        directory: to make.
        name: of the model's file there.
    """
    directory.mkdir()
    shutil.copy(ROOT / "resources/digits.onnx", directory / name)
    return Project(directory)


def new_project(directory: Path) -> Project:
    """A project that has not run yet."""
    directory.mkdir(parents=True)
    for name in ("digits.onnx", "digits.pt2", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, directory / name)
    project = Project(directory)
    project.write_config(CONFIG)
    return project


def tuned_project(directory: Path) -> Project:
    """Digits for this machine, untuned and slightly tuned."""
    project = new_project(directory)
    tuning = {"trials_per_kernel": TRIALS, "rounds": 1, "batch": 2, "population": 16, "cost_model": "random"}
    tuning["measure"] = {"repeat": 1, "min_repeat_ms": 0}
    native = {"kind": "llvm", "mcpu": "native"}
    project.write_config(
        {**project.config, "precisions": ["float32"], "targets": {"cpu": native, "tuned": {**native, "tuning": tuning}}}
    )
    return project


def changed_weights(source: Path, destination: Path) -> None:
    """The same network with one changed weight: the same kernels, other results."""
    model = onnx.load(source)
    tensor = model.graph.initializer[0]
    values = onnx.numpy_helper.to_array(tensor).astype(np.float32).copy()
    values.flat[0] += 0.5
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    onnx.save(model, destination)
