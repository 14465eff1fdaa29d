"""Commands run no Python file that the config does not name, use no network, and write only documented files at home."""

import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from textwrap import dedent

import pytest

from tests.requirements import need
from tests.workflow.project import Project, tuned_project
from tvmake.storage.resources import snakefile

PLUGINS = ("snakemake_executor_plugin_here", "snakemake_logger_plugin_here", "snakemake_report_plugin_here")
"""Names that Snakemake looks for among all modules on Python's path."""

START = ("sitecustomize", "usercustomize")
"""Modules that Python imports at its start if they exist."""

WATCH = Path(__file__).with_name("network_watch.c")

ALLOWED = {".cache/tvmake", ".local/share/tvmake", ".cache/snakemake"}
"""Directories in a user's home: tvmake's, and Snakemake's empty one for sources of remote workflows."""

CONFIG = ("--config", "tvmake.yaml")
PACKAGE = "results/factory/float32/tuned/package.tar"

COMMANDS = (
    ("make", *CONFIG),
    ("make", *CONFIG, "--no-warm", "--forcerun", "report", "--no-cache"),
    ("check", *CONFIG),
    ("lock", *CONFIG),
    ("make", *CONFIG, "--locked", "run.lock", "--dry-run"),
    ("verify", PACKAGE),
    ("status", "results"),
    ("bundle", "export", "all.tar"),
    ("bundle", "import", "all.tar"),
    ("cache", "info"),
    ("cache", "verify"),
    ("records", "list"),
    ("records", "verify"),
    ("runtime", "list"),
    ("status", *CONFIG),
    ("explain", PACKAGE, *CONFIG),
    ("logs", "factory", *CONFIG),
    ("report", *CONFIG),
    ("run", PACKAGE),
    ("targets", "llvm"),
    ("diff", "results", "results"),
    ("init", "digits.onnx", "--output", "new.yaml"),
    ("clean", *CONFIG),
    ("clean", *CONFIG, "--yes"),
)
"""Commands that use no network."""

OF_DEVICES = (("doctor",), ("device", "list", *CONFIG))
"""Commands that look for adb's server, trackers and OpenCL's drivers, which have caches of their own at home."""

MAY_FAIL = {"verify", "bundle", "diff", "run"}
"""Commands whose exit codes depend on signatures, what exists already, and goals."""


def installed_names() -> set[str]:
    """The modules that a program here may import."""
    names = {name.partition(".")[0] for name in (*sys.stdlib_module_names, *metadata.packages_distributions())}
    return {
        name
        for name in names
        if name.isidentifier() and (name in sys.builtin_module_names or PathFinder.find_spec(name) is not None)
    }


def foreign_project(directory: Path, notes: Path) -> Project:
    """A project with a factory and a pass, among files with the names of all importable modules.

    Args:
        directory: to make.
        notes: the file in which the foreign files note that they were run.
    """
    project = tuned_project(directory)
    for name in {*installed_names(), *PLUGINS, *START}:
        (project.directory / f"{name}.py").write_text(
            f"open({str(notes)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit('{name}.py was run')\n"
        )
    (project.directory / "my_network.py").write_text(
        dedent("""
        import json, re, typing

        import torch

        def network():
            return torch.nn.Linear(4, 2), (torch.ones(1, 4),)
        """)
    )
    (project.directory / "my_pass.py").write_text(
        dedent("""
        import json, re

        import tvm

        def unchanged():
            return lambda module: module
        """)
    )
    factory = {"source": "my_network:network", "trusted": True, "goals": {"rtol": 0.01}}
    digits = project.config["models"]["digits"]
    project.edit("models", {"factory": {**factory, "targets": ["tuned"]}, "digits": {**digits, "targets": ["cpu"]}})
    project.edit("targets.tuned.tuning.trials_per_kernel", 1)
    project.edit("transform", {"passes": ["my_pass:unchanged"]})
    return project


@dataclass(frozen=True)
class Traces:
    """The traces of all commands in one project."""

    home: frozenset[str]
    """The files that COMMANDS wrote into the home directory."""
    network: str
    """The look-ups and connections of COMMANDS."""
    foreign: dict[tuple[str, ...], str]
    """The foreign files that ran, by command."""


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that records look-ups and connections."""
    need("cc")
    library = tmp_path_factory.mktemp("watch") / "watch.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, WATCH, "-ldl"], check=True)
    return library


def watched(project: Project, watch: Path, network: Path, home: Path) -> Project:
    """The project, whose programs record every look-up and connection, and whose user has an empty home."""
    home.mkdir()
    project.environment = {
        "LD_PRELOAD": str(watch),
        "NETWORK_WATCH": str(network),
        "HOME": str(home),
        "TVMAKE_HOME": "",
        "XDG_CACHE_HOME": "",
        "XDG_DATA_HOME": "",
    }
    return project


@pytest.fixture(scope="module")
def traces(watch: Path, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Run all commands in a project full of foreign Python files."""
    directory = tmp_path_factory.mktemp("foreign")
    notes, network, home = (directory / name for name in ("notes", "network", "user"))
    project = watched(foreign_project(directory / "project", notes), watch, network, home)
    foreign: dict[tuple[str, ...], str] = {}

    def run(command: tuple[str, ...]) -> None:
        done = project.run_process("tvmake", *command)
        assert done.returncode == 0 or command[0] in MAY_FAIL, (command, done.stderr)
        if notes.exists() or "was run" in done.stdout + done.stderr:
            foreign[command] = notes.read_text() if notes.exists() else done.stderr

    for command in COMMANDS:
        run(command)
    connections = network.read_text() if network.exists() else ""
    files = frozenset(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())
    for command in OF_DEVICES:
        run(command)
    return Traces(files, connections, foreign)


def test_no_command_runs_an_unrelated_python_file(traces: Traces):
    assert traces.foreign == {}


def test_no_command_uses_the_network(traces: Traces):
    assert traces.network == ""


def test_commands_write_only_the_documented_files_into_the_home_directory(traces: Traces):
    assert {file for file in traces.home if not file.startswith(tuple(ALLOWED))} == set()


def test_the_watch_sees_a_look_up(watch: Path, tmp_path: Path):
    project = Project(tmp_path)
    watched(project, watch, tmp_path / "network", tmp_path / "user")
    project.run_process("python", "-c", "import socket; socket.getaddrinfo('localhost', 80)")
    assert "getaddrinfo localhost" in (tmp_path / "network").read_text()


def test_snakemake_itself_runs_no_unrelated_python_file(tmp_path: Path):
    project = foreign_project(tmp_path / "project", tmp_path / "notes")
    done = project.run_process(
        *("snakemake", "--snakefile", str(snakefile()), "--configfile", "tvmake.yaml", "--cores", "2"),
        "results/factory/float32/module.json",
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "notes").exists(), (tmp_path / "notes").read_text()


def test_a_factory_with_the_name_of_an_installed_module_is_refused_by_name(tmp_path: Path):
    project = tuned_project(tmp_path / "project")
    (project.directory / "colorsys.py").write_text("def network(): pass\n")
    project.write_config({**project.config, "models": {"x": {"source": "colorsys:network", "trusted": True}}})
    done = project.make()
    assert done.returncode == 1
    assert "colorsys.py has the name of another Python module" in done.stderr
    assert "give the file another name" in done.stderr
