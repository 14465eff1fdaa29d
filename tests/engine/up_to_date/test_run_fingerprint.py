"""The values that the answer "nothing to do" depends on, other than files."""

import sys
from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import load_layers
from tvmake.engine.up_to_date import run_fingerprint as fingerprints
from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint, run_fingerprint
from tvmake.plan.plan import Plan
from tvmake.storage import resources
from tvmake.storage.code_fingerprint import DISTRIBUTIONS

CONFIG = {"models": {"net": {"source": "net.onnx"}}, "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}}}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's directory as the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
    Path("net.onnx").write_bytes(b"net")
    return tmp_path


def ask(environment: dict[str, str] | None = None) -> RunFingerprint | None:
    """The fingerprint of a run here."""
    files = [Path("tvmake.yaml")]
    return run_fingerprint(Plan(load_layers(files, {})), files, environment or {})


def whole(environment: dict[str, str] | None = None) -> str | None:
    found = ask(environment)
    return found and found.digest


def workflow(environment: dict[str, str] | None = None) -> str:
    found = ask(environment)
    assert found is not None
    return found.workflow


@pytest.mark.parametrize("variable", ["TVMAKE_HOME", "TVMAKE_CACHE", "SNAKEMAKE_OUTPUT_CACHE"])
def test_variables_that_may_count_are_part_of_every_fingerprint(variable: str):
    for digest in (whole, workflow):
        assert digest({variable: "here"}) != digest({variable: "there"}) != digest({})
        assert digest({"SSH_CLIENT": "here"}) == digest({"SSH_CLIENT": "there"})


def test_a_profile_that_the_environment_names_makes_snakemake_plan():
    assert ask({"SNAKEMAKE_PROFILE": "mine"}) is None


@pytest.mark.parametrize("path", ["profiles/default/config.yaml", "profiles/default/profile.v9+.yaml", "default"])
def test_a_profile_of_the_user_is_part_of_every_fingerprint(path: str):
    before, workflow_before = whole(), workflow()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("forceall: true\n")
    assert whole() != before
    assert workflow() != workflow_before


def test_a_directory_where_snakemake_would_look_for_a_profile_is_part_of_the_fingerprint():
    before = whole()
    Path("default").mkdir()
    assert whole() != before


def test_a_profile_that_is_a_program_makes_snakemake_plan():
    Path("profiles/default").mkdir(parents=True)
    Path("profiles/default/config.yaml").write_text("cores: $CORES\n")
    assert ask() is None


def test_a_side_file_of_a_model_that_appears_is_part_of_the_fingerprint():
    before = whole()
    Path("net.onnx.data").touch()
    assert whole() != before


def test_another_processor_is_part_of_the_fingerprint_where_code_is_for_this_one(monkeypatch: pytest.MonkeyPatch):
    before = whole()
    monkeypatch.setattr(fingerprints, "cpu_identity", lambda: "another")
    assert whole() != before


@pytest.mark.parametrize("distribution", sorted({name for names in DISTRIBUTIONS.values() for name in names}))
def test_another_version_of_a_library_is_part_of_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, distribution: str
):
    before = whole()
    site = tmp_path_factory.mktemp("site")
    (site / f"{distribution.replace('-', '_')}-99.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    assert whole() != before


@pytest.mark.parametrize("file", ["frontend/onnx/importer.py", "cli/make.py", "resources/Snakefile", "new.py"])
def test_every_file_of_the_package_is_part_of_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, file: str
):
    package = tmp_path_factory.mktemp("site") / "tvmake"
    for name in ("frontend/onnx/importer.py", "cli/make.py", "resources/Snakefile"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("text")
    monkeypatch.setattr(resources, "PACKAGE", package)
    before = whole()
    (package / file).write_text("other")
    assert whole() != before
    changed = whole()
    (package / "cli/__pycache__").mkdir()
    (package / "cli/__pycache__/make.pyc").touch()
    assert whole() == changed


def test_a_rule_that_changes_is_part_of_every_fingerprint(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
):
    root = tmp_path_factory.mktemp("workflow")
    (root / "rules").mkdir()
    for name in ("Snakefile", "rules/build.smk"):
        (root / name).write_text("text")
    monkeypatch.setattr(fingerprints.resources, "snakefile", lambda: root / "Snakefile")
    before = workflow()
    (root / "rules/build.smk").write_text("other")
    assert workflow() != before
