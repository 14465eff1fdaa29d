"""Snakemake is not run for what is known to be up to date, and the answer is the one that Snakemake would give."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.workflow import test_reruns
from tests.workflow.project import Project
from tvmake.config.reading.load import load_layers
from tvmake.engine.up_to_date import noop
from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint, run_fingerprint
from tvmake.plan.plan import Plan
from tvmake.storage.notes.known_digests import SETTLED_NS

CHANGES = [(key, value) for key, value, expected in test_reruns.CONFIG_CHANGES if expected]
"""The config changes of the golden lists that rerun something."""


@pytest.fixture(scope="module")
def noted(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the finished project with a saved answer; tests do not change it."""
    return with_a_note(finished, tmp_path_factory.mktemp("noted"))


def with_a_note(finished: Project, directory: Path) -> Project:
    """A copy whose files have settled and whose answer is saved."""
    shutil.copytree(finished.directory.parent, directory / "copy", symlinks=True)
    project = Project(directory / "copy" / finished.directory.name)
    time.sleep(1.1 * SETTLED_NS / 1e9)
    done = project.make()
    assert done.returncode == 0, done.stderr
    assert (project.directory / noop.ANSWER).is_file()
    return project


def asks_snakemake(project: Project, *arguments: str) -> bool:
    """Whether ``tvmake make`` loads Snakemake; the import fails, so nothing is made."""
    directory = project.directory.parent / "without" / "snakemake"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "__init__.py").write_text("raise ImportError('snakemake is asked')\n")
    beside = Project(project.directory)
    beside.environment = {**project.environment, "PYTHONPATH": str(directory.parent)}
    done = beside.make(*arguments)
    if done.returncode:
        assert "snakemake is asked" in done.stderr, done.stderr
        return True
    assert "results: results/summary.json" in done.stdout or "nothing to do" in done.stderr
    return False


def asked(project: Project, monkeypatch: pytest.MonkeyPatch) -> RunFingerprint | None:
    """The fingerprint of a run."""
    monkeypatch.chdir(project.directory)
    files = [Path("tvmake.yaml")]
    return run_fingerprint(Plan(load_layers(files, {})), files, project.environ())


def test_the_quick_answer_is_snakemakes(noted: Project):
    text = (noted.directory / noop.ANSWER).read_text()
    before = noted.files("results/**/*")
    quick = noted.make()
    assert not asks_snakemake(noted)
    (noted.directory / noop.ANSWER).unlink()
    planned = noted.make()
    assert (quick.returncode, quick.stdout, quick.stderr) == (planned.returncode, planned.stdout, planned.stderr)
    assert noted.files("results/**/*") == before
    assert (noted.directory / noop.ANSWER).read_text() == text


def test_an_up_to_date_file_is_reported_as_such(noted: Project):
    file = "results/digits/float32/module.json"
    assert noted.make(file).stderr == "nothing to do: everything is up to date\n"
    assert noted.make("-q", file).stderr == ""


@pytest.mark.parametrize("options", [["--cores", "1", "-q", "--no-cache", "--no-warm", "--stop-early"]])
def test_options_that_change_nothing_are_answered_at_once(noted: Project, options: list[str]):
    assert not asks_snakemake(noted, *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--forcerun", "build"],
        ["--dry-run", "all"],
        ["all"],
        ["results/digits/float32/module.json"],
        ["--set", "benchmark.repeat=4"],
    ],
    ids=" ".join,
)
def test_any_other_option_is_snakemakes(noted: Project, options: list[str]):
    assert asks_snakemake(noted, *options)


@pytest.mark.parametrize(("key", "value"), CHANGES, ids=lambda value: str(value)[:40])
def test_a_config_change_is_not_answered_from_saved_state(
    noted: Project, monkeypatch: pytest.MonkeyPatch, key: str, value: object
):
    before, kept = asked(noted, monkeypatch), noted.config
    assert before is not None
    noted.edit(key, value)
    if key == "models.other":
        shutil.copy(noted.directory / "digits.pt2", noted.directory / "other.pt2")
    after = asked(noted, monkeypatch)
    noted.write_config(kept)
    assert after is not None and after.digest != before.digest
    again = asked(noted, monkeypatch)
    assert again is not None and again.digest == before.digest


def test_removed_or_changed_results_are_rebuilt(finished: Project, tmp_path: Path):
    project = with_a_note(finished, tmp_path)
    page = project.directory / "results/index.html"
    page.unlink()
    assert asks_snakemake(project)
    assert project.make().returncode == 0
    assert page.is_file()
    assert not asks_snakemake(project)  # the page is new, and has a record
    dataset = project.directory / "digits-test.npz"
    known = dataset.stat()
    with dataset.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    os.utime(dataset, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert project.planned_rules() == {"reference": 1, "validate": 2, "benchmark": 2, "select": 1, "report": 1}


def test_a_tuned_project_is_answered_at_once_until_a_kernel_is_gone(finished_tuned: Project, tmp_path: Path):
    project = with_a_note(finished_tuned, tmp_path)
    assert not asks_snakemake(project)
    next(project.directory.glob("results/tuning/tuned/round1/workloads/*.json")).unlink()
    assert asks_snakemake(project)


def test_a_changed_module_is_noticed(finished: Project, tmp_path: Path):
    project = Project(tmp_path / "project")
    shutil.copytree(finished.directory, project.directory, symlinks=True)
    package = test_reruns.copy_package(tmp_path / "elsewhere")
    path = str(package.parent)
    project.environment["PYTHONPATH"] = path
    time.sleep(1.1 * SETTLED_NS / 1e9)
    assert project.make().returncode == 0
    project.environment["PYTHONPATH"] = path
    blocked = project.directory.parent / "without"
    (blocked / "snakemake").mkdir(parents=True)
    (blocked / "snakemake" / "__init__.py").write_text("raise ImportError('snakemake is asked')\n")
    project.environment["PYTHONPATH"] = f"{blocked}{os.pathsep}{path}"
    assert project.make().returncode == 0
    with (package / "validate" / "numerics.py").open("a") as file:
        file.write("\n# changed\n")
    assert "snakemake is asked" in project.make().stderr
