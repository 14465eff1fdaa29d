"""Programs that deploy software for jobs are looked for before the run, and so is the software itself."""

import argparse
import json
from pathlib import Path

import pytest
import yaml
from snakemake.settings.types import DeploymentMethod

import tvmake
from tests.workflow.project import ROOT
from tvmake.engine.deployment_check import check_deployment
from tvmake.engine.environments import IMAGE, conda_file, image


def arguments(*methods: DeploymentMethod) -> argparse.Namespace:
    return argparse.Namespace(software_deployment_method=set(methods))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install tvmake once more, as far as metadata shows: from an index, or with what pip records on another origin."""

    def installed(version: str, origin: dict | None = None) -> None:
        directory = tmp_path / "site" / f"tvmake-{version}.dist-info"
        directory.mkdir(parents=True)
        (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tvmake\nVersion: {version}\n")
        if origin:
            (directory / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(directory.parent))
        monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv(IMAGE, "registry.example/me/tvmake:1")

    return installed


@pytest.mark.parametrize(
    "method, program", [(DeploymentMethod.CONDA, "conda"), (DeploymentMethod.APPTAINER, "singularity")]
)
def test_a_method_works_with_its_program_and_is_refused_without(
    install, path: Path, method: DeploymentMethod, program: str
):
    install("9.9.9")
    refused = check_deployment(arguments(method))
    assert refused is not None
    assert refused.where == f"--software-deployment-method {method}"
    (path / program).touch(mode=0o755)
    assert check_deployment(arguments(method)) is None


def test_modules_and_no_method_need_no_program(path: Path):
    assert check_deployment(arguments()) is None
    assert check_deployment(arguments(DeploymentMethod.ENV_MODULES)) is None


def test_a_release_is_installed_by_its_version(install):
    install("9.9.9")
    assert conda_file() == str(ROOT / "envs/tvmake.yaml")
    assert f"- tvmake[all]=={tvmake.__version__}\n" in Path(conda_file()).read_text()


def test_a_wheel_is_installed_from_its_path_with_its_digest(install, path: Path):
    (path / "conda").touch(mode=0o755)
    wheel, digest = path / "tvmake-9.9.9.dev0-py3-none-any.whl", "ab" * 32
    wheel.touch()
    install("9.9.9.dev0", {"url": wheel.as_uri(), "archive_info": {"hashes": {"sha256": digest}}})
    environment = yaml.safe_load(Path(conda_file()).read_text())
    assert environment["dependencies"][-1]["pip"][-1] == f"tvmake[all] @ {wheel.as_uri()}#sha256={digest}"
    assert conda_file() == conda_file()
    assert check_deployment(arguments(DeploymentMethod.CONDA)) is None
    wheel.unlink()
    assert check_deployment(arguments(DeploymentMethod.CONDA)) is not None


@pytest.mark.parametrize(
    "version, origin",
    [("9.9.9", {"url": "file:///checkout", "dir_info": {"editable": True}}), ("9.9.9.dev0", None)],
    ids=["checkout", "development version"],
)
def test_what_conda_cannot_install_again_is_refused_with_the_remedy(install, path: Path, version: str, origin):
    (path / "conda").touch(mode=0o755)
    install(version, origin)
    refused = check_deployment(arguments(DeploymentMethod.CONDA))
    assert refused is not None
    assert "pip wheel" in (refused.remedy or "")


def test_containers_need_an_image_of_ones_own(install, path: Path, monkeypatch: pytest.MonkeyPatch):
    (path / "apptainer").touch(mode=0o755)
    assert image() is None
    refused = check_deployment(arguments(DeploymentMethod.APPTAINER))
    assert refused is not None
    assert refused.problem == f"{IMAGE} does not name an image"
    for name, url in [("me/tvmake:1", "docker://me/tvmake:1"), ("/images/tvmake.sif",) * 2, ("oras://a/b:1",) * 2]:
        monkeypatch.setenv(IMAGE, name)
        assert image() == url
    assert check_deployment(arguments(DeploymentMethod.APPTAINER)) is None
