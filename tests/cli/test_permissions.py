"""Files without read or write permission are distinguished from missing ones, with a remedy."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.requirements import need
from tests.workflow import preloaded
from tests.workflow.project import ROOT, SCRIPTS, Project

CONFIG = f"models: {{digits: {{source: '{ROOT}/resources/digits.onnx'}}}}\ntargets: {{cpu: {{kind: llvm}}}}\n"


CAPABILITIES = "-dac_override,-dac_read_search"
"""Those for which root ignores the modes of files."""


def as_an_owner() -> tuple[str, ...]:
    """The beginning of a command line that makes the modes of files apply to root too."""
    need("setpriv and unshare")
    return ("setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}") if os.geteuid() == 0 else ()


def as_a_user(directory: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of tvmake's as an owner to whom the modes of files apply."""
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    return preloaded.run(shlex.split(command)[1:], directory, environment, wrapper=as_an_owner())


@pytest.mark.parametrize("command", ["status", "make -n", "make", "logs digits", "clean", "report", "lock"])
def test_results_that_may_not_be_read_are_not_missing(tmp_path: Path, command: str):
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    (tmp_path / "results" / "digits").mkdir(parents=True)
    (tmp_path / "results" / "digits").chmod(0)
    done = as_a_user(tmp_path, f"tvmake {command}")
    assert done.returncode == 3 and "missing" not in done.stdout
    assert done.stderr.startswith("error: results/digits: the directory cannot be read\n")
    assert done.stderr.endswith(": chmod u+rwx results/digits\n")


def test_read_only_results_are_shown_and_not_made(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    (tmp_path / "results" / "digits").mkdir(parents=True)
    (tmp_path / "results" / "digits").chmod(0o500)
    assert "missing" in as_a_user(tmp_path, "tvmake status").stdout
    made = as_a_user(tmp_path, "tvmake make")
    assert made.stderr.startswith("error: results/digits: the directory cannot be written\n")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which a model has been imported."""
    project = Project(tmp_path_factory.mktemp("imported"))
    (project.directory / "tvmake.yaml").write_text(CONFIG)
    assert project.make("--quiet", "results/digits/source.json").returncode == 0
    return project.directory


@pytest.mark.parametrize(
    ("subdirectory", "command"),
    [
        ("metadata", "make"), ("metadata", "make -n"), ("tvmake-jobs", "make -n"), ("tvmake-jobs", "status"),
        ("tvmake-jobs", "explain results/digits/source.json"),
    ],
)  # fmt: skip
def test_records_that_may_not_be_read_are_not_missing(imported: Path, tmp_path: Path, subdirectory: str, command: str):
    shutil.copytree(imported, tmp_path, symlinks=True, dirs_exist_ok=True)
    notes = list((tmp_path / ".snakemake" / subdirectory).iterdir())
    for note in notes:
        note.chmod(0)
    done = as_a_user(tmp_path, f"tvmake {command}")
    assert (done.returncode, "outdated" in done.stdout) == (3, False), done.stderr
    assert re.search(rf"error: \.snakemake/{subdirectory}/\S+: cannot be read", done.stderr)
    assert f" .snakemake/{subdirectory}/" in done.stderr[done.stderr.index("chmod u+r") :]
    assert notes and all(note.exists() for note in notes)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("tvmake.yaml", "check"),
        ("package.tar", "verify package.tar"),
        ("package.tar", "run package.tar"),
        ("run.lock", "make --locked run.lock"),
        ("key", "sign package.tar --key key"),
        ("model.onnx", "init model.onnx -o other.yaml"),
    ],
)
def test_a_file_that_may_not_be_read_is_named_with_the_mode_that_lets_you(tmp_path: Path, file: str, command: str):
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    for name in ("package.tar", "run.lock", "key", "model.onnx"):
        (tmp_path / name).write_text("content")
    (tmp_path / file).chmod(0)
    done = as_a_user(tmp_path, f"tvmake {command}")
    assert done.returncode in (1, 3)
    assert re.match(
        rf"error: {file}: cannot be read.*\n  its mode is \S+: chmod u\+rw {file}\n$", done.stderr, re.IGNORECASE
    )


@pytest.mark.parametrize("command", ["run results/package.tar", "init results/m.onnx", "diff results/a results/b"])
def test_what_the_system_refuses_where_no_command_expects_it_is_one_line(tmp_path: Path, command: str):
    (tmp_path / "results").mkdir(mode=0)
    done = as_a_user(tmp_path, f"tvmake {command}")
    assert done.returncode in (1, 3) and done.stdout == ""
    assert re.match(r"error: results\S*: cannot be read", done.stderr), done.stderr
    assert "Traceback" not in done.stderr and done.stderr.endswith(": chmod u+rwx results\n")
