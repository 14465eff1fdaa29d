"""Python files in the working directory are never run by a command or its children unless the config names them."""

import subprocess
import sys
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from textwrap import dedent

import pytest

from tests.workflow.project import Project, tuned_project

PLUGINS = ("snakemake_executor_plugin_here", "snakemake_logger_plugin_here", "snakemake_report_plugin_here")
"""Names that Snakemake looks for among all modules on Python's path."""

START = ("sitecustomize", "usercustomize")
"""Modules that Python imports at its start if they exist."""


def installed_names() -> set[str]:
    """The modules that a program here may import."""
    names = {name.partition(".")[0] for name in (*sys.stdlib_module_names, *metadata.packages_distributions())}
    return {
        name
        for name in names
        if name.isidentifier() and (name in sys.builtin_module_names or PathFinder.find_spec(name) is not None)
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a factory and a pass, among files with the names of all importable modules."""
    project = tuned_project(tmp_path / "project")
    for name in {*installed_names(), *PLUGINS, *START}:
        (project.directory / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + '\\n')\nraise SystemExit('{name}.py was run')\n"
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
    project.edit("models.factory", {"source": "my_network:network", "trusted": True, "goals": {"rtol": 0.01}})
    project.edit("transform", {"passes": ["my_pass:unchanged"]})
    return project


def test_no_command_runs_an_unrelated_python_file(project: Project, tmp_path: Path):
    ran = tmp_path / "ran"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = project.run_process("tvmake", *arguments)
        assert not ran.exists(), (arguments, ran.read_text())
        assert "was run" not in done.stdout + done.stderr, (arguments, done.stderr)
        return done

    package = "results/digits/float32/cpu/package.tar"
    config = ("--config", "tvmake.yaml")
    assert run("check", *config).returncode == 0
    assert run("doctor").returncode == 0
    made = run("make", *config)
    assert made.returncode == 0, made.stderr
    for arguments in (
        ("make", *config, "--no-warm", "--forcerun", "report", "--no-cache"),
        ("lock", *config),
        ("make", *config, "--locked", "run.lock", "--dry-run"),
        ("verify", package),
        ("status", package),
        ("bundle", "export", "all.tar"),
        ("bundle", "import", "all.tar"),
        ("cache", "info"),
        ("cache", "verify"),
        ("records", "list"),
        ("records", "verify"),
        ("runtime", "list"),
        ("status", *config),
        ("explain", package, *config),
        ("logs", "digits", *config),
        ("report", *config),
        ("run", package),
        ("targets", "llvm"),
        ("diff", "results", "results"),
        ("device", "list", *config),
        ("init", "digits.onnx", "--output", "new.yaml"),
        ("clean", *config),
        ("clean", *config, "--yes"),
    ):
        run(*arguments)


def test_snakemake_itself_runs_no_unrelated_python_file(project: Project, tmp_path: Path):
    project.edit("targets.tuned", None)
    project.edit("models.digits", None)
    snakefile = project.run_process("tvmake", "runtime", "--help")
    assert snakefile.returncode == 0
    from tvmake.storage.resources import snakefile as locate_snakefile

    done = project.run_process(
        "snakemake", "--snakefile", str(locate_snakefile()), "--configfile", "tvmake.yaml", "--cores", "2"
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_factory_with_the_name_of_an_installed_module_is_refused_by_name(project: Project):
    (project.directory / "colorsys.py").write_text("def network(): pass\n")
    project.write_config({**project.config, "models": {"x": {"source": "colorsys:network", "trusted": True}}})
    done = project.run_process("tvmake", "make", "--config", "tvmake.yaml", "--set", "precisions=[float32]")
    assert done.returncode == 1
    assert "colorsys.py has the name of another Python module" in done.stderr
    assert "give the file another name" in done.stderr
