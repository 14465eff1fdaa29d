"""Snakemake finds the workflow's files where it would itself, and says the same of those it cannot read."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.project import Project

ASKED = """
import sys
import snakemake.api
from snakemake.sourcecache import LocalSourceFile, SourceCache
from tvmake.lean_start import start_leanly

if sys.argv[1] == "lean":
    start_leanly()
file = LocalSourceFile(sys.argv[2])
print(file.get_cache_path())
try:
    with SourceCache._open(None, file, "r", encoding="utf-8") as opened:
        print(opened.read())
except Exception as error:
    print(type(error).__name__, error)
print("smart_open" in sys.modules)
"""


def said_of(path: str, how: str, directory: Path) -> list[str]:
    """The place in the cache, what is read, and whether the library was loaded."""
    command = [sys.executable, "-c", ASKED, how, path]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("name", ["Snakefile", "a b/c%20d.smk", "ü//rules.smk"])
def test_a_file_is_read_without_the_library(name: str, tmp_path: Path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("rule all: größer\n")
    path = f"{tmp_path}/{name}"
    *lean, loaded = said_of(path, "lean", tmp_path)
    assert [*lean, "True"] == said_of(path, "plain", tmp_path)
    assert loaded == "False"
    assert lean[1] == "rule all: größer"


@pytest.mark.parametrize("path", ["rules.smk", "/nowhere/rules.smk"])
def test_what_is_not_there_or_not_a_whole_path_is_left_to_it(path: str, tmp_path: Path):
    lean = said_of(path, "lean", tmp_path)
    assert lean == said_of(path, "plain", tmp_path)
    assert "WorkflowError" in lean[1]


def test_a_plan_loads_no_client_of_web_services(fresh: Project):
    done = fresh.run(
        sys.executable, "-X", "importtime", "-c", "from tvmake.cli import main; main()", "make", "--dry-run"
    )
    assert done.returncode == 0, done.stderr
    assert "snakemake.sourcecache" in done.stderr
    assert "smart_open" not in done.stderr


def loaded_by(project: Project, *arguments: str) -> tuple[int, str]:
    """The exit code of ``tvmake make``, and the modules that it loads between what it says."""
    command = [sys.executable, "-X", "importtime", "-c", "from tvmake.cli import main; main()", "make", *arguments]
    done = project.run(*command)
    return done.returncode, done.stderr


def test_the_report_is_loaded_when_one_is_asked_for(demo: Project):
    code, said = loaded_by(demo, "--dry-run")
    assert code == 0, said
    assert "snakemake.report" not in said
    code, said = loaded_by(demo, "--report", "run.html")
    assert code == 0, said
    assert (demo.directory / "run.html").read_text().startswith("<!doctype html>")


def test_a_profile_may_name_the_reports_options(demo: Project):
    profile = demo.directory / "profile"
    profile.mkdir()
    (profile / "config.yaml").write_text("reporter: html\nreport-html-path: run.zip\n")
    code, said = loaded_by(demo, "--profile", str(profile))
    assert code == 0, said
    assert (demo.directory / "run.zip").is_file()


def test_an_option_that_no_report_knows_is_refused_once(fresh: Project):
    done = fresh.make("--report-colour=red")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: tvmake make: unrecognized arguments: --report-colour=red",
        "  see `tvmake make -h`, `snakemake -h`",
    ]
