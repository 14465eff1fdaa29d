"""The cluster, and projects to send to it."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurm import PLUGINS, Slurm, has_plugins, started
from tests.requirements import need, require
from tests.workflow.project import TRIALS, Project, new_project

PACKAGES = [f"results/digits/{precision}/cpu/package.tar" for precision in ("float32", "float16", "float16_acc32")]
TASKS = "results/digits/float32/tuned/tasks.json"


@pytest.fixture(scope="session")
def plugins() -> Iterator[None]:
    """Snakemake's plugins for clusters, where they are not installed like everything else."""
    kept = os.environ.get("PYTHONPATH")
    if PLUGINS.is_dir():
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [kept, str(PLUGINS)]))
    require(has_plugins(), f"Snakemake's plugins for clusters: envs/cluster.sh {sys.executable} {PLUGINS}")
    yield
    os.environ.pop("PYTHONPATH", None)
    os.environ.update({"PYTHONPATH": kept} if kept is not None else {})


@pytest.fixture(scope="module")
def slurm(plugins: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of its own, for as long as the tests of a file run."""
    need("Slurm", "munge", "setpriv and unshare")
    require(os.geteuid() == 0, "root, to start Slurm's daemons: run the tests as root")
    with started(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


def three_precisions_and_a_tuned_one(directory: Path) -> Project:
    """Digits as the demo has them, small: one variant is tuned, on a device that only one node has."""
    project = new_project(directory)
    native = {"kind": "llvm", "mcpu": "native"}
    tuning = {"trials_per_kernel": TRIALS, "rounds": 1, "batch": 2, "population": 16, "cost_model": "random"}
    tuning["measure"] = {"repeat": 1, "min_repeat_ms": 0}
    project.write_config(
        {
            **project.config,
            "precisions": ["float32", "float16", "float16_acc32"],
            "targets": {"cpu": native, "tuned": {**native, "device": "phone", "tuning": tuning}},
            "devices": {"phone": {"via": "local", "gres": "phone:1"}},
            "variants": {"exclude": [{"target": "tuned", "precision": name} for name in ("float16", "float16_acc32")]},
        }
    )
    return project


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same project, packaged on this machine without a cluster; tests work on copies."""
    project = three_precisions_and_a_tuned_one(tmp_path_factory.mktemp("local") / "project")
    done = project.make(*PACKAGES, TASKS)
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def packaged(local: Project, tmp_path: Path) -> Project:
    """A copy, without records."""
    shutil.copytree(local.directory, tmp_path / "project", symlinks=True)
    return Project(tmp_path / "project")
