"""Java on this machine: tvmake's library and the tests' programs compiled, and run with the native libraries."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.native.devices import abi_library
from tests.patience import HANG_S
from tests.requirements import need
from tvmake.native.compile import build
from tvmake.native.parts import find_built
from tvmake.storage.resources import android_project

PROGRAMS = Path(__file__).with_name("java")

LIBRARY = android_project() / "tvmake" / "src" / "main"
APP = android_project() / "app" / "src" / "main"

ANDROID_ONLY = ("MainActivity.java", "AssetFiles.java")
"""What a desktop's JDK lacks classes for."""

STEADY = ("-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options with which Java's own memory is the same from the beginning."""


def sources(*directories: Path, without: Iterable[str] = ANDROID_ONLY) -> list[Path]:
    """Java files below directories."""
    return sorted(file for directory in directories for file in directory.rglob("*.java") if file.name not in without)


def compiled(files: Iterable[Path], destination: Path, *directories: Path) -> Path:
    """A directory of classes: for Java 8, whose libraries old Android has, and without a single warning.

    Args:
        class_path: directories of other classes that these use.
    """
    need("javac")
    command = ["javac", "-Xlint:all,-options", "-Werror", "--release", "8", "-d", destination]
    done = subprocess.run(
        [*command, "-cp", os.pathsep.join(map(str, directories)) or ".", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return destination


def native_libraries(programs: Path, destination: Path) -> Path:
    """The directory that java.library.path names: the two libraries, and TVM's beside them."""
    need("javac", "cmake", "g++")
    for file in programs.glob("libtvm*.so"):
        shutil.copy(file, destination)
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("TVMAKE_HOME", raising=False)
        jni = find_built("jni") or build("jni")
    for library in (abi_library(), jni):
        shutil.copy(library, destination)
    return destination


def java(
    classes: Path, libraries: Path, *arguments: object, options: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program of the tests."""
    command = ["java", *options, f"-Djava.library.path={libraries}", "-cp", classes, *arguments]
    environment = {**os.environ, "TVM_NUM_THREADS": "1"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=HANG_S, env=environment, check=False
    )
