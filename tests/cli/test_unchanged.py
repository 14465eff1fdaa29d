"""A note that there was nothing to do: what it must notice, and when it is not written."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tvmake import house
from tvmake.cli import unchanged
from tvmake.cli.unchanged import JobFiles, Look, Question, begin, note, nothing_has_changed, question
from tvmake.config.load import load_layers
from tvmake.plan.fingerprint import DISTRIBUTIONS
from tvmake.plan.plan import Plan

LATER_NS = 10_000_000_000
"""As if Snakemake had begun to plan ten seconds from now, when all that is there has settled."""

CONFIG = {"models": {"net": {"source": "net.onnx"}}, "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}}}


@dataclass
class Made:
    """A directory where everything is made, and its note."""

    asked: Question
    jobs: JobFiles

    def look(self) -> Look:
        """Of a plan that begins once everything has settled."""
        return replace(begin(), began_ns=time.time_ns() + LATER_NS)

    def is_unchanged(self) -> bool:
        """What the next run says."""
        return nothing_has_changed(self.asked)


def ask(environment: dict[str, str] | None = None) -> Question | None:
    """What a run here goes by."""
    files = [Path("tvmake.yaml")]
    return question(Plan(load_layers(files, {})), files, environment or {})


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's directory, worked in."""
    monkeypatch.chdir(tmp_path)
    Path("tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
    Path("net.onnx").write_bytes(b"net")
    return tmp_path


@pytest.fixture
def made(directory: Path) -> Made:
    """A project with results and a note."""
    for name in ("results/model.json", "results/package.tar", "results/workloads/a.json", "results/sources/a.ll"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("content")
    Path("link").symlink_to("results/model.json")
    for name in (".snakemake/metadata/of-model", ".snakemake/metadata/@deep/of-package"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    Path(".snakemake/incomplete").mkdir()
    asked = ask()
    assert asked is not None
    jobs = JobFiles(
        frozenset({"net.onnx", "link", "results/model.json", "results/workloads"}),
        frozenset({"results/model.json", "results/package.tar", "results/workloads", "results/sources"}),
    )
    project = Made(asked, jobs)
    assert note(asked, project.look(), jobs)
    return project


def other_content_of_the_same_size_and_time(name: str = "net.onnx") -> None:
    known = Path(name).stat()
    Path(name).write_bytes(Path(name).read_bytes()[::-1])
    os.utime(name, ns=(known.st_atime_ns, known.st_mtime_ns))


def a_copy_with_its_times(name: str = "net.onnx") -> None:
    shutil.copy2(name, "copy")
    Path("copy").replace(name)


def another_target_of_a_link() -> None:
    Path("link").unlink()
    Path("link").symlink_to("results/package.tar")


def a_lock() -> None:
    Path(".snakemake/locks").mkdir()
    Path(".snakemake/locks/0.output.lock").touch()


CHANGES: dict[str, Callable[[], object]] = {
    "source: same size and time": other_content_of_the_same_size_and_time,
    "source: moved in with its time": a_copy_with_its_times,
    "source: touched": lambda: os.utime("net.onnx"),
    "source: gone": lambda: Path("net.onnx").unlink(),
    "output: gone": lambda: Path("results/package.tar").unlink(),
    "output: replaced, same size and time": lambda: other_content_of_the_same_size_and_time("results/package.tar"),
    "output directory: gone": lambda: shutil.rmtree("results/sources"),
    "file in an input directory: gone": lambda: Path("results/workloads/a.json").unlink(),
    "file in an input directory: other content": lambda: other_content_of_the_same_size_and_time(
        "results/workloads/a.json"
    ),
    "file in an input directory: new": lambda: Path("results/workloads/b.json").touch(),
    "link: to another file": another_target_of_a_link,
    "Snakemake's notes: one gone": lambda: Path(".snakemake/metadata/of-model").unlink(),
    "Snakemake's notes: one of a long name gone": lambda: Path(".snakemake/metadata/@deep/of-package").unlink(),
    "Snakemake's notes: one more": lambda: Path(".snakemake/metadata/of-another").touch(),
    "Snakemake's notes: another content": lambda: Path(".snakemake/metadata/of-model").write_text("[]"),
    "Snakemake's notes: all gone": lambda: shutil.rmtree(".snakemake/metadata"),
    "an incomplete result": lambda: Path(".snakemake/incomplete/of-model").touch(),
    "a plain snakemake at work": a_lock,
    "the note: gone": lambda: unchanged.NOTE.unlink(),
    "the note: cut off": lambda: unchanged.NOTE.write_text(unchanged.NOTE.read_text()[:-20]),
    "the note: of another form": lambda: unchanged.NOTE.write_text(
        unchanged.NOTE.read_text().replace('"form": 1', '"form": 2')
    ),
}


def test_where_nothing_has_changed_it_says_so(made: Made):
    assert made.is_unchanged()
    assert made.is_unchanged()


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_file_is_noticed(made: Made, change: str):
    CHANGES[change]()
    assert not made.is_unchanged()


def test_a_file_that_no_job_knows_changes_nothing(made: Made):
    Path("results/notes.txt").touch()
    assert made.is_unchanged()


def test_nothing_is_noted_of_files_that_may_have_changed_while_snakemake_planned(made: Made):
    unchanged.forget()
    look = made.look()
    just_begun = replace(look, began_ns=time.time_ns())
    assert not note(made.asked, just_begun, made.jobs)
    assert not made.is_unchanged()
    Path(".snakemake/metadata/of-another").touch()  # by a plain snakemake beside this run
    assert not note(made.asked, look, made.jobs)
    assert note(made.asked, made.look(), made.jobs)


def test_a_directory_where_snakemake_has_not_been_yet_can_be_looked_at(directory: Path):
    assert begin().notes == ""
    Path(".snakemake").mkdir()
    assert begin().notes != ""


def test_nothing_is_noted_where_code_or_config_changed_while_snakemake_planned(made: Made):
    assert not note(replace(made.asked, newest_ns=time.time_ns() + LATER_NS), made.look(), made.jobs)


def test_a_file_that_was_gone_already_is_noted_as_gone(made: Made):
    """Snakemake needs no file between two that are there."""
    Path("results/package.tar").unlink()
    assert not note(made.asked, replace(begin(), began_ns=time.time_ns()), made.jobs)
    assert note(made.asked, made.look(), made.jobs)
    assert made.is_unchanged()
    Path("results/package.tar").touch()
    assert not made.is_unchanged()


def test_nothing_is_noted_beside_a_plain_snakemake(made: Made):
    look = made.look()
    a_lock()
    assert not note(made.asked, look, made.jobs)


@pytest.mark.parametrize("variable", ["TVMAKE_HOME", "TVMAKE_CACHE", "SNAKEMAKE_OUTPUT_CACHE"])
def test_variables_that_may_count_are_part_of_the_question(directory: Path, variable: str):
    assert ask({variable: "here"}) != ask({variable: "there"}) != ask({})
    assert ask({"SSH_CLIENT": "here"}) == ask({"SSH_CLIENT": "there"})


def test_a_profile_that_the_environment_names_makes_snakemake_plan(directory: Path):
    assert ask({"SNAKEMAKE_PROFILE": "mine"}) is None


@pytest.mark.parametrize("place", ["profiles/default/config.yaml", "profiles/default/profile.v9+.yaml", "default"])
def test_a_profile_of_ones_own_is_part_of_the_question(directory: Path, place: str):
    before = ask()
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_text("forceall: true\n")
    assert ask() != before


def test_a_directory_where_snakemake_would_look_for_a_profile_is_part_of_the_question(directory: Path):
    before = ask()
    Path("default").mkdir()
    assert ask() != before


def test_a_profile_that_is_a_program_makes_snakemake_plan(directory: Path):
    Path("profiles/default").mkdir(parents=True)
    Path("profiles/default/config.yaml").write_text("cores: $CORES\n")
    assert ask() is None


def test_a_side_file_of_a_model_that_appears_is_part_of_the_question(directory: Path):
    before = ask()
    Path("net.onnx.data").touch()
    assert ask() != before


def test_another_processor_is_part_of_the_question_where_code_is_for_this_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
):
    before = ask()
    monkeypatch.setattr(unchanged, "cpu_identity", lambda: "another")
    assert ask() != before


@pytest.mark.parametrize("distribution", sorted({name for names in DISTRIBUTIONS.values() for name in names}))
def test_another_version_of_a_library_is_part_of_the_question(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, distribution: str
):
    before = ask()
    site = tmp_path_factory.mktemp("site")
    (site / f"{distribution.replace('-', '_')}-99.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    assert ask() != before


@pytest.mark.parametrize(
    "file", ["frontend/onnx.py", "cli/make.py", "house/Snakefile", "house/rules/build.smk", "new.py"]
)
def test_every_file_of_the_package_is_part_of_the_question(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, file: str
):
    package = tmp_path_factory.mktemp("site") / "tvmake"
    for name in ("frontend/onnx.py", "cli/make.py", "house/Snakefile", "house/rules/build.smk"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("text")
    monkeypatch.setattr(house, "PACKAGE", package)
    before = ask()
    (package / file).write_text("other")
    assert ask() != before
    (package / "cli/__pycache__").mkdir()
    assert ask() != before
