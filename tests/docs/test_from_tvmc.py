"""The page for users of tvmc: what it says to write instead is right."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from tests.process import shared
from tests.workflow.project import ROOT, Project
from tvmake.cli import run, single
from tvmake.cli.configs import load_plan
from tvmake.cli.device.app import chosen_device
from tvmake.plan.single import SingleRun
from tvmake.process.forkserver.client import DIRECTORY

ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "docs/from-tvmc.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]
CODE = [cell.strip("`") for _, cell, _ in ROWS if cell != "–"]
COMMANDS = [code for code in CODE if code.startswith("tvmake ")]
MAKING = ("tvmake compile", "tvmake tune")
NEVER_CALLED = ('model.tune("phone", trials=200)', "model.tune(trials=200)")
"""Minutes of measuring, and a phone: the names of their arguments are checked."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """What the page calls ``model.onnx`` and ``mine.tar``, made by the Python on the page; and its other files."""
    directory = tmp_path_factory.mktemp("tvmc") / "project"
    directory.mkdir()
    shutil.copy(ROOT / "resources/digits.onnx", directory / "model.onnx")
    np.savez(directory / "in.npz", image=np.zeros((1, 1, 8, 8), "float32"))
    project = Project(directory)
    project.environment[DIRECTORY] = shared.directory()
    calls = [code for code in CODE if code not in COMMANDS and code not in NEVER_CALLED]
    bound = [f"inspect.signature(tvmake.Model.tune).bind({code.replace('.tune(', ', ')}" for code in NEVER_CALLED]
    script = "\n".join(["import inspect, numpy", *calls, *bound])
    done = project.run("python", "-c", script)
    assert done.returncode == 0, done.stderr
    assert project.run("tvmake", "init", "model.onnx").returncode == 0
    return project


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The project, where ``compile`` and ``tune`` end once their config and its plan are right."""

    def planned(wanted: SingleRun, artifact: str, *_: Any) -> None:
        wanted.write_config()
        plan = load_plan([wanted.config_file], None)
        assert [variant.model for variant in plan.variants] == ["model"], artifact
        raise typer.Exit(0)

    monkeypatch.setattr(single, "build_artifact", planned)
    monkeypatch.setenv(DIRECTORY, shared.directory())
    monkeypatch.setenv("TVMAKE_HOME", str(project.directory.parent / "home"))
    monkeypatch.chdir(project.directory)
    yield project.directory


def test_what_has_no_counterpart_has_a_reason():
    assert len(ROWS) > 60
    assert all(reason for _, counterpart, reason in ROWS if counterpart == "–")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith(MAKING)])
def test_an_option_of_compile_or_tune_is_one_that_plans(command: str, place: Path, capfd: pytest.CaptureFixture[str]):
    code = run(shlex.split(command)[1:])
    assert code == 0, capfd.readouterr().err


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith(MAKING)])
def test_the_other_commands_run(command: str, place: Path, capfd: pytest.CaptureFixture[str]):
    words = shlex.split(command)[1:]
    if (device := words[-1]).startswith("rpc:"):  # whose tracker is waited for
        assert chosen_device(device, None).via == "rpc"
        return
    code = run([*words, "-n"] if words[0] == "make" else words)
    said = capfd.readouterr().err
    if words[0] == "records":  # of which there are none yet
        assert "has no such records" in said or "no such file" in said, said
    else:
        assert code == 0, said


def test_the_python_of_the_page_made_the_package(project: Project):
    assert (project.directory / "mine.tar").is_file()
    assert (project.directory / "out.npz").is_file()
