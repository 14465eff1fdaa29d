"""The wheel: it carries the workflow, and works outside the checkout."""

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.requirements import need, require
from tests.workflow.project import ROOT, Project, new_project
from tvmake.lock.git import own_revision
from tvmake.native.parts import parts, sources_digest

HEAVY = {"tvm", "tvm_ffi", "torch", "snakemake", "onnx", "onnxruntime", "pydantic", "numpy", "jinja2", "yaml"}
"""Libraries that cost time to import and that help needs nothing of."""

CHECKOUT_FILES = [
    "Snakefile",
    "profiles/default/config.yaml",
    "envs/tvmake.yaml",
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "rules").glob("*.smk")),
    *sorted(
        str(file.relative_to(ROOT))
        for name in ("native", "android")
        for file in (ROOT / name).rglob("*")
        if file.is_file()
    ),
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md")),
]
"""Files outside the package that the wheel carries as its resources."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `pip wheel` builds it from this checkout."""
    found = subprocess.run([sys.executable, "-c", "import hatchling, pip"], capture_output=True, check=False)
    require(found.returncode == 0, "pip and hatchling: pip install --group build")
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", directory, ROOT],
        check=True,
    )
    (built,) = directory.glob("tvmake-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the wheel is installed in; its dependencies come from this environment."""
    directory = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", directory, wheel],
        check=True,
    )
    return directory


@pytest.fixture
def project(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of one variant that takes tvmake from the wheel."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    project = new_project(tmp_path / "project")
    project.environment["PYTHONPATH"] = str(site)
    project.write_config({**project.config, "precisions": ["float32"]})
    return project


def test_the_wheel_carries_the_workflow_and_the_cpp_sources_of_the_checkout(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        for name in CHECKOUT_FILES:
            assert archive.read(f"tvmake/resources/{name}") == (ROOT / name).read_bytes()


def test_the_wheel_carries_the_packages_own_data(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "workflow" / "tvmake"
    ours = [path.relative_to(package) for path in package.rglob("*") if path.is_file()]
    for path in ours:
        if "__pycache__" not in path.parts:
            assert f"tvmake/{path}" in names
    assert {"tvmake/py.typed", "tvmake/targets/catalogue/tags.txt"} <= set(names)


def test_the_wheel_names_the_commit_that_it_was_built_from(project: Project):
    said = project.run("tvmake", "--version").stdout
    revision = own_revision()
    if revision is None:  # the tests run from an archive of the sources
        assert "commit" not in said
    else:
        assert f" (commit {revision.commit}{', modified' if revision.modified else ''})" in said


def test_the_wheel_carries_nothing_else(wheel: Path):
    for name in zipfile.ZipFile(wheel).namelist():
        assert name.startswith(("tvmake/", "snakemake_scheduler_plugin_tvmake/")) or ".dist-info/" in name
        assert "__pycache__" not in name and ".snakemake" not in name


def test_the_wheel_is_made_of_the_same_bytes_each_time(wheel: Path, tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT],
        check=True,
    )
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_a_project_is_checked_and_made_from_the_wheel_alone(project: Project, site: Path):
    code = "import tvmake.storage.resources as resources; print(resources.__file__); print(resources.snakefile())"
    done = project.run(sys.executable, "-c", code)
    for line in done.stdout.splitlines():
        assert Path(line).is_relative_to(site), done.stdout
    checked = project.run("tvmake", "check")
    assert checked.returncode == 0, checked.stderr
    made = project.make()
    assert made.returncode == 0, made.stderr
    assert project.result("results/summary.json")["rows"][0]["verdict"] == "pass"
    assert project.planned_rules() == {}


def test_native_parts_compile_from_the_wheel_and_are_those_of_the_checkout(project: Project, site: Path):
    need("cmake", "g++")
    code = (
        "import json\nfrom tvmake.native.parts import parts, sources_digest\n"
        "from tvmake.storage.resources import native_sources\n"
        "print(native_sources())\n"
        "print(json.dumps({name: sources_digest(part) for name, part in parts().items()}))\n"
    )
    directory, digests = project.run(sys.executable, "-c", code).stdout.splitlines()
    assert Path(directory).is_relative_to(site)
    assert json.loads(digests) == {name: sources_digest(part) for name, part in parts().items()}
    done = project.run("tvmake", "runtime", "build", "server")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.removeprefix("server: ").strip()).is_relative_to(project.directory.parent / "home")


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
