"""``tvmake runtime``: the parts that can be compiled, and those that are."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tvmake.cli import run
from tvmake.cli.app import app
from tvmake.cli.machine import runtime
from tvmake.native import parts


@pytest.fixture(autouse=True)
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))


def test_the_list_shows_parts_that_are_not_built_and_how_to_build_them():
    said = CliRunner().invoke(app, ["runtime", "list"])
    assert said.exit_code == 0
    (line,) = [line for line in said.output.splitlines() if line.startswith("opencl")]
    assert line.endswith("not built: tvmake runtime build opencl")


def test_the_list_names_the_file_of_a_build(tmp_path: Path):
    file = tmp_path / "native" / "opencl-made" / parts.parts()["opencl"].output
    file.parent.mkdir(parents=True)
    file.touch()
    parts.pointer(parts.parts()["opencl"], parts.HOST).write_text(json.dumps({"directory": "opencl-made"}))
    rows = {row["part"]: row for row in json.loads(CliRunner().invoke(app, ["runtime", "list", "--json"]).output)}
    assert rows["opencl"]["file"] == str(file)
    assert rows["opencl"]["purpose"]


def test_an_unknown_part_is_refused_with_those_that_there_are(capsys):
    assert run(["runtime", "build", "vulkan"]) == 2
    told = capsys.readouterr().err
    assert "no such part: 'vulkan'" in told
    assert "opencl" in told and "all" in told


def test_a_missing_cmake_is_reported_with_the_command_that_installs_it(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["runtime", "build", "opencl"]) == 3
    assert "cmake, which compiles it, is not installed\n  apt-get install cmake g++" in capsys.readouterr().err


def test_a_missing_jdk_is_reported_and_all_skips_the_part_that_needs_it(tmp_path: Path, monkeypatch, capsys):
    for name in ("cmake", "g++"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["runtime", "build", "jni"]) == 3
    assert "javac, which compiles it, is not installed\n  apt-get install openjdk-17" in capsys.readouterr().err
    assert runtime._names("all") == [name for name in parts.parts() if name != "jni"]


def test_a_directory_of_the_users_is_not_replaced_by_the_library(tmp_path: Path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    assert run(["runtime", "build", "abi", "-o", str(tmp_path / "mine")]) == 1
    assert "mine: exists and is not a directory of this command\n  name a new directory" in capsys.readouterr().err
    assert (tmp_path / "mine/file").is_file()


def test_a_part_without_an_output_directory_is_refused_one(capsys):
    assert run(["runtime", "build", "runner", "-o", "there"]) == 2
    assert "--api and --output need a triple\n  name one, such as aarch64-linux-android" in capsys.readouterr().err
