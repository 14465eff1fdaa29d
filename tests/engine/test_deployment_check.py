"""Programs that deploy software for jobs are looked for before the run."""

import argparse
from pathlib import Path

import pytest
from snakemake.settings.types import DeploymentMethod

from tvmake.engine.deployment_check import check_deployment


def arguments(*methods: DeploymentMethod) -> argparse.Namespace:
    return argparse.Namespace(software_deployment_method=set(methods))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "method, program", [(DeploymentMethod.CONDA, "conda"), (DeploymentMethod.APPTAINER, "singularity")]
)
def test_a_method_works_with_its_program_and_is_refused_without(path: Path, method: DeploymentMethod, program: str):
    refused = check_deployment(arguments(method))
    assert refused is not None
    assert refused.where == f"--software-deployment-method {method}"
    (path / program).touch(mode=0o755)
    assert check_deployment(arguments(method)) is None


def test_modules_and_no_method_need_no_program(path: Path):
    assert check_deployment(arguments()) is None
    assert check_deployment(arguments(DeploymentMethod.ENV_MODULES)) is None
