"""Compiling a C++ part: once, whoever asks, and with a clear word where it cannot be done."""

import json
import multiprocessing
import shutil
from pathlib import Path

import pytest

from tests.requirements import require
from tvmake.errors import MachineError
from tvmake.native import compile as compiling
from tvmake.native import parts

PART = parts.Part("small", "libsmall.so", ("small",), "for tests")
TOP = """cmake_minimum_required(VERSION 3.18)
project(small LANGUAGES CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${TVMAKE_OUTPUT}")
add_subdirectory(small)
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A part of one line, in place of tvmake's, and an empty place for builds."""
    require(shutil.which("cmake") and shutil.which("g++"), "cmake and g++: apt-get install cmake g++")
    place = tmp_path / "native"
    (place / "small").mkdir(parents=True)
    (place / "CMakeLists.txt").write_text(TOP)
    (place / "small" / "CMakeLists.txt").write_text("add_library(small SHARED small.cc)\n")
    (place / "small" / "small.cc").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(parts, "SOURCES", place)
    monkeypatch.setattr(compiling, "SOURCES", place)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    return place / "small"


def test_a_part_is_compiled_once_and_then_found(sources):
    said = []
    assert parts.find_built(PART) is None
    file = compiling.build(PART, tell=said.append)
    assert len(said) == 2
    assert compiling.build(PART, tell=said.append) == parts.find_built(PART) == file
    assert len(said) == 2
    assert sorted(one.name for one in file.parent.iterdir()) == ["build.json", "libsmall.so"]
    assert json.loads((file.parent / "build.json").read_text())["compiler"].startswith("g++")


def test_a_change_of_source_or_toolchain_is_another_build(sources):
    first = compiling.build(PART)
    debug = parts.Toolchain(name="debug", flags=("-g",))
    assert compiling.build(PART, debug) != first
    (sources / "small.cc").write_text('extern "C" int answer() { return 43; }\n')
    assert parts.find_built(PART) is None
    assert compiling.build(PART) != first


def test_a_build_that_was_removed_is_made_again(sources):
    file = compiling.build(PART)
    shutil.rmtree(file.parent)
    assert parts.find_built(PART) is None
    assert compiling.build(PART).is_file()


def test_two_processes_compile_once(sources):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(build_and_tell, range(2))
    assert len({file for file, _ in results}) == 1
    assert sorted(lines for _, lines in results) == [0, 2]


def build_and_tell(_: int) -> tuple[Path, int]:
    said: list[str] = []
    return compiling.build(PART, tell=said.append), len(said)


@pytest.mark.parametrize("missing", ["cmake", "g++"])
def test_a_missing_tool_is_named_with_what_installs_it(sources, tmp_path, monkeypatch, missing):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in {"cmake", "g++"} - {missing}:
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(MachineError, match=f"{missing.replace('+', '.')} is not installed") as error:
        compiling.build(PART)
    assert "apt-get install" in error.value.remedy
    assert error.value.exit_code == 3


def test_a_source_that_does_not_compile_shows_the_compilers_word_and_leaves_nothing(sources):
    (sources / "small.cc").write_text("int answer() { return missing; }\n")
    with pytest.raises(MachineError, match="'missing' was not declared") as error:
        compiling.build(PART)
    log = Path(error.value.remedy.rpartition(" ")[2])
    assert "missing" in log.read_text()
    assert parts.find_built(PART) is None
    assert not any(one.is_dir() for one in parts.root().iterdir())


def test_sources_that_change_meanwhile_are_not_passed_off_as_built(sources):
    (sources / "edited").write_text("int answer() { return 44; }\n")
    (sources / "CMakeLists.txt").write_text(
        "add_library(small SHARED small.cc)\n"
        'add_custom_command(TARGET small POST_BUILD COMMAND "${CMAKE_COMMAND}" -E copy '
        '"${CMAKE_CURRENT_SOURCE_DIR}/edited" "${CMAKE_CURRENT_SOURCE_DIR}/small.cc")\n'
    )
    with pytest.raises(MachineError, match="its sources changed while they were compiled"):
        compiling.build(PART)
    assert parts.find_built(PART) is None
