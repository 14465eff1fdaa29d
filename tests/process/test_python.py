"""Python as a child process leaves the working directory out of what it imports."""

import ast
import getpass
import os
import subprocess
from pathlib import Path

import pytest

from tvmake.process.python import protect_children, python_command

PACKAGE = Path(__file__).resolve().parents[2] / "workflow" / "tvmake"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file that would replace the json module."""
    (tmp_path / "json.py").write_text("raise SystemExit('was run')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("how", [("-m", "json.tool", "--help"), ("-c", "import json")])
def test_a_child_does_not_import_from_the_working_directory(hostile: Path, how: tuple[str, str]):
    assert subprocess.run(python_command(*how), capture_output=True).returncode == 0


def test_programs_that_a_library_starts_do_not_either(hostile: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    protect_children()
    command = [python_command()[0], "-c", "import json"]
    assert subprocess.run(command, capture_output=True, env=os.environ).returncode == 0


def test_a_user_without_a_name_has_the_number_for_one(monkeypatch: pytest.MonkeyPatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    protect_children()
    assert "USER" not in os.environ, "there is an entry in /etc/passwd"
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    protect_children()
    assert getpass.getuser() == "4000000" and Path.home().is_absolute()
    monkeypatch.delenv("USER")


def test_there_is_one_place_that_says_how_python_is_started():
    paths = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.List) and any(ast.unparse(entry) == "sys.executable" for entry in node.elts)
    }
    assert paths == {"process/python.py"}
