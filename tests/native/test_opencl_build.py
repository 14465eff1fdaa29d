"""Compiling a C++ part: once, whoever asks, and with a clear word where it cannot be done."""

import json
import multiprocessing
import shutil
from pathlib import Path

import pytest

from tests.requirements import need
from tvmake.errors import MachineError
from tvmake.native import compile as compiling
from tvmake.native import parts

TOP = """cmake_minimum_required(VERSION 3.19)
project(small LANGUAGES CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/parts")
add_library(small SHARED small/small.cc)
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A part of one line instead of tvmake's, and an empty directory for builds."""
    need("cmake", "g++")
    directory = tmp_path / "native"
    (directory / "small").mkdir(parents=True)
    (directory / "cmake").mkdir()
    (directory / "cmake" / "tvm.cmake").touch()
    (directory / "CMakeLists.txt").write_text(TOP)
    part = {"output": "libsmall.so", "directories": ["small"], "purpose": "for tests"}
    (directory / "parts.json").write_text(json.dumps({"small": part}))
    (directory / "small" / "small.cc").write_text('extern "C" int answer() { return 42; }\n')
    for module in (parts, compiling):
        monkeypatch.setattr(module, "native_sources", lambda: directory)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    return directory / "small"


def test_a_part_is_compiled_once_and_then_found(sources):
    lines = []
    assert parts.find_built("small") is None
    file = compiling.build("small", progress=lines.append)
    assert len(lines) == 2
    assert compiling.build("small", progress=lines.append) == parts.find_built("small") == file
    assert len(lines) == 2
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["build.json", "libsmall.so"]
    assert json.loads((file.parent / "build.json").read_text())["compiler"].startswith("g++")


def test_a_change_of_source_or_toolchain_is_another_build(sources):
    first = compiling.build("small")
    debug = parts.Toolchain(name="debug", flags=("-g",))
    assert compiling.build("small", debug) != first
    (sources / "small.cc").write_text('extern "C" int answer() { return 43; }\n')
    assert parts.find_built("small") is None
    assert compiling.build("small") != first


def test_a_build_that_was_removed_is_made_again(sources):
    file = compiling.build("small")
    shutil.rmtree(file.parent)
    assert parts.find_built("small") is None
    assert compiling.build("small").is_file()


def test_two_processes_compile_once(sources):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(build_and_count, range(2))
    assert len({file for file, _ in results}) == 1
    assert sorted(count for _, count in results) == [0, 2]


def build_and_count(_: int) -> tuple[Path, int]:
    lines: list[str] = []
    return compiling.build("small", progress=lines.append), len(lines)


@pytest.mark.parametrize("missing", ["cmake", "g++"])
def test_a_missing_tool_is_named_with_what_installs_it(sources, tmp_path, monkeypatch, missing):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in {"cmake", "g++"} - {missing}:
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(
        MachineError, match=f"{missing.replace('+', '.')}, which compiles it, is not installed"
    ) as error:
        compiling.build("small")
    assert "apt-get install" in error.value.remedy
    assert error.value.exit_code == 3


def test_a_source_that_does_not_compile_shows_the_compilers_word_and_leaves_nothing(sources):
    (sources / "small.cc").write_text("int answer() { return missing; }\n")
    with pytest.raises(MachineError, match="'missing' was not declared") as error:
        compiling.build("small")
    log = Path(error.value.remedy.rpartition(" ")[2])
    assert "missing" in log.read_text()
    assert parts.find_built("small") is None
    assert not any(entry.is_dir() for entry in parts.root().iterdir())


def test_sources_that_change_meanwhile_are_not_passed_off_as_built(sources):
    (sources / "edited").write_text("int answer() { return 44; }\n")
    (sources.parent / "CMakeLists.txt").write_text(
        TOP + 'add_custom_command(TARGET small POST_BUILD COMMAND "${CMAKE_COMMAND}" -E copy '
        '"${CMAKE_CURRENT_SOURCE_DIR}/small/edited" "${CMAKE_CURRENT_SOURCE_DIR}/small/small.cc")\n'
    )
    with pytest.raises(MachineError, match="its sources changed while they were compiled"):
        compiling.build("small")
    assert parts.find_built("small") is None


def test_a_copy_of_the_sources_elsewhere_has_the_same_builds(sources, tmp_path, monkeypatch):
    file = compiling.build("small")
    copied = Path(shutil.copytree(sources.parent, tmp_path / "elsewhere"))
    for module in (parts, compiling):
        monkeypatch.setattr(module, "native_sources", lambda: copied)
    assert parts.find_built("small") == file


def test_without_sources_nothing_is_found_and_building_says_what_to_do(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "native_sources", lambda: tmp_path / "absent")
    assert parts.find_built("small") is None
    with pytest.raises(MachineError, match="lacks the C\\+\\+ sources") as error:
        compiling.build("small")
    assert error.value.remedy == "reinstall tvmake"
