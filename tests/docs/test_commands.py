"""The commands that README and the first pages show run as they stand; their configs are right, their table is whole."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
import yaml

from tests.workflow.project import ROOT, Project
from tvmake.cli.app import app
from tvmake.config.reading.load import check

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/getting-started").glob("*.md"))]

PROGRAMS = ("tvmake ", "make ", "snakemake ", "git ", "pip ", "cp ", "export ", "cd ")

ELSEWHERE = {
    "git clone": "takes a checkout",
    "make demo": "the gate runs it",
    "make test": "the gate runs it",
    "make lint": "the gate runs it",
    "pip install": "tests/packaging installs the wheel",
    "export PIP_EXTRA_INDEX_URL": "asks the network",
}
"""Beginnings of commands that are not run here, and why."""

OTHER_PROGRAMS = {
    "mkdir digits && tar": "of the C++ program; tests/native unpacks packages",
    "g++": "tests/native/test_abi.py compiles such a program",
    "python3 -m venv": "asks the network",
    "keras-venv/": "needs TensorFlow; tests/docs/test_import_guide.py has what needs none",
    "trees-venv/": "asks the network",
}
"""Beginnings of commands of other programs, in pages whose commands run, and why they are not run."""


def lines(page: Path) -> Iterator[str]:
    """The lines of a page's shell and plain blocks, fenced or indented."""
    language: str | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            language = line.removeprefix("```").strip() if language is None else None
        elif language in ("", "sh") or (language is None and line.startswith("    ")):
            yield line.strip()


def unknown_commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks that are neither commands that run nor listed with the reason why not."""
    known = (*PROGRAMS, *ELSEWHERE, *OTHER_PROGRAMS)
    blocks = re.findall(
        r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    shown = [line.removeprefix("$ ") for line in "\n".join(blocks).splitlines()]
    return [line for line in shown if line.strip() and not line.startswith((*known, " ", "#"))]


def commands(page: Path) -> list[str]:
    """The commands of a page in order, without their comments."""
    shown = [line.removeprefix("$ ").partition("  #")[0].strip() for line in lines(page)]
    return [line for line in shown if line.startswith(PROGRAMS) and not line.startswith(tuple(ELSEWHERE))]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A directory with the model that the pages name."""
    directory = tmp_path / "project"
    (directory / "resources").mkdir(parents=True)
    shutil.copy(ROOT / "resources/digits.onnx", directory / "resources")
    shutil.copy(ROOT / "resources/digits.onnx", directory / "model.onnx")
    return Project(directory)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_one_after_the_other(page: Path, project: Project):
    if page.stem in ("README", "first-model"):
        assert "tvmake make" in commands(page)
    for command in commands(page):
        done = project.shell(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_command_of_another_program_has_a_reason_why_it_is_not_run(page: Path):
    assert unknown_commands(page) == []


def test_the_first_config_is_what_init_writes(project: Project):
    (written,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/getting-started/first-model.md").read_text(), re.DOTALL)
    assert project.run("tvmake", "init", "model.onnx").returncode == 0
    assert yaml.safe_load(written) == project.config


def test_the_config_of_the_readme_is_right():
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    check(yaml.safe_load(example), {})


def test_the_readme_lists_every_command_and_no_other():
    rows = re.findall(r"^\| (`tvmake .*?) \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(?:tvmake )?([a-z]+)", row)}
    group = typer.main.get_command(app)
    known = {name for name, command in group.commands.items() if not command.hidden}
    subcommands = {name for command in group.commands.values() for name in getattr(command, "commands", ())}
    assert known <= listed <= known | subcommands
