"""Effects of a missing component on the tests that need it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import COMPONENTS

TESTS = """
import pytest
from tests import requirements

requirements.COMPONENTS["gadget"] = requirements.Component(lambda: False, "gadget-bin libgadget")

@pytest.mark.parametrize("number", range(3))
def test_with_a_gadget(number):
    requirements.need("gadget")

def test_with_a_module():
    requirements.need_module("no_such_module", "pip install no-such")

def test_as_another_user():
    requirements.require(False, "root, to mount file systems: run the tests as root")

def test_with_what_is_there():
    requirements.need_module("pytest", "pip install pytest")
"""


def run(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (directory / "tests").mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("requirements.py"), directory / "tests")
    (directory / "tests/conftest.py").write_text("pytest_plugins = ['tests.requirements']\n")
    (directory / "tests/__init__.py").touch()
    (directory / "tests/test_gadget.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "tests"]
    return subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_on_a_users_machine_one_line_names_missing_components_and_the_command(tmp_path: Path):
    done = run(tmp_path, CI="")
    assert done.returncode == 0, done.stdout
    line = "skipped for lack of tools: 4; `make test-tools` installs gadget, no_such_module; not for this machine: 1 (-rs says why)\n"
    assert done.stdout.count(line) == 1
    assert "1 passed, 5 skipped" in done.stdout


def test_in_ci_a_missing_component_fails_its_tests(tmp_path: Path):
    done = run(tmp_path, CI="true")
    assert done.returncode == 1
    assert "needs gadget: apt-get install gadget-bin libgadget" in done.stdout
    assert "5 failed, 1 passed" in done.stdout


@pytest.mark.parametrize("has_programs", [True, False])
def test_the_program_prints_the_packages_of_missing_components(has_programs: bool, tmp_path: Path):
    path = os.environ["PATH"] if has_programs else str(tmp_path)
    command = [sys.executable, str(Path(__file__).with_name("requirements.py"))]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True)
    missing = {name for name, component in COMPONENTS.items() if not component.is_there()}
    assert ("cmake" in done.stdout.split()) == (not has_programs or "cmake" in missing)
