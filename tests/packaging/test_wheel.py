"""The wheel: it carries the workflow, and works outside the checkout."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.requirements import require
from tests.workflow.project import ROOT, Project, new_project

HEAVY = {"tvm", "tvm_ffi", "torch", "snakemake", "onnx", "onnxruntime", "pydantic", "numpy", "altair", "yaml"}
"""Libraries that cost time to import and that help needs nothing of."""

WORKFLOW_FILES = ["Snakefile", *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "rules").glob("*.smk"))]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `pip wheel` builds it from this checkout."""
    found = subprocess.run([sys.executable, "-c", "import hatchling, pip"], capture_output=True, check=False)
    require(found.returncode == 0, "pip and hatchling (the dependency group 'build')")
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", place, ROOT],
        check=True,
    )
    (built,) = place.glob("tvmake-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the wheel is installed in; its dependencies come from this environment."""
    place = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", place, wheel],
        check=True,
    )
    return place


@pytest.fixture
def project(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of one variant that takes tvmake from the wheel."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    project = new_project(tmp_path / "project")
    project.environment["PYTHONPATH"] = str(site)
    project.write_config({**project.config, "precisions": ["float32"]})
    return project


def test_the_wheel_carries_the_workflow_as_it_is_in_the_checkout(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        for name in [*WORKFLOW_FILES, "profiles/default/config.yaml", "envs/tvmake.yaml"]:
            assert archive.read(f"tvmake/house/{name}") == (ROOT / name).read_bytes()


def test_the_wheel_carries_the_packages_own_data(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "workflow" / "tvmake"
    ours = [path.relative_to(package) for path in package.rglob("*") if path.is_file()]
    for path in ours:
        if "__pycache__" not in path.parts:
            assert f"tvmake/{path}" in names
    assert {"tvmake/py.typed", "tvmake/config/tags.txt"} <= set(names)


def test_the_wheel_carries_nothing_else(wheel: Path):
    for name in zipfile.ZipFile(wheel).namelist():
        assert name.startswith("tvmake/") or ".dist-info/" in name
        assert "__pycache__" not in name and ".snakemake" not in name


def test_the_wheel_is_made_of_the_same_bytes_each_time(wheel: Path, tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT],
        check=True,
    )
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_a_project_is_checked_and_made_from_the_wheel_alone(project: Project, site: Path):
    where = "import tvmake.house as house; print(house.__file__); print(house.snakefile())"
    done = project.run(sys.executable, "-c", where)
    for line in done.stdout.splitlines():
        assert Path(line).is_relative_to(site), done.stdout
    checked = project.run("tvmake", "check")
    assert checked.returncode == 0, checked.stderr
    made = project.make()
    assert made.returncode == 0, made.stderr
    assert project.result("results/summary.json")["rows"][0]["verdict"] == "pass"
    assert project.planned_rules() == {}


def test_help_imports_nothing_heavy(project: Project):
    script = (
        "import sys\nfrom tvmake.cli import main\nsys.argv = ['tvmake', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print({name.partition('.')[0] for name in sys.modules})\n"
    )
    done = project.run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    *shown, modules = done.stdout.splitlines()
    assert any("make" in line for line in shown)
    assert ast.literal_eval(modules) & HEAVY == set()
