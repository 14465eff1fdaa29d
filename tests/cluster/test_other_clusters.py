"""The profiles for clusters without a plugin of their own: any command that submits, and Kubernetes with a stand-in."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.cluster.slurm import Slurm
from tests.workflow.project import ROOT, Project, new_project

OPTIONS = ("--retries", "0", "--latency-wait", "10", "--seconds-between-status-checks", "2")
MODEL = "results/digits/model.json"
IMAGE = {"TVMAKE_IMAGE": "tvmake:1", "TVMAKE_K8S_CLAIM": "shared", "TVMAKE_K8S_MOUNT": "/shared"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has not run yet."""
    return new_project(tmp_path / "project")


@pytest.fixture
def kubernetes(project: Project, tmp_path: Path, plugins: None) -> Project:
    """The project, with a `kubectl` that runs pods here."""
    for name in ("bin", "pods"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(Path(__file__).with_name("kubectl_stand_in.py"))
    project.environment = {
        **IMAGE,
        "PATH": f"{Path(sys.executable).parent}:{tmp_path / 'bin'}:{os.environ['PATH']}",
        "KUBECTL_STAND_IN": str(tmp_path / "pods"),
    }
    return project


def manifest(resources: dict, **properties: object) -> dict:
    submit = runpy.run_path(str(ROOT / "profiles" / "kubernetes" / "submit.py"))
    told = {"rule": "import_model", "threads": 1, "resources": resources, **properties}
    return submit["manifest"](told, "/shared/job.sh", "/shared/project", {**IMAGE, "HOME": "/root"})


@pytest.mark.long
def test_any_command_that_submits_jobs_will_do(slurm: Slurm, project: Project):
    done = project.make("--profile", "generic", *OPTIONS, MODEL)
    assert done.returncode == 0, done.stderr
    assert (project.directory / MODEL).is_file()
    failed = project.make(
        "--profile", "generic", *OPTIONS, "--forcerun", "import_model", "--set-resources", "import_model:mem_mb=50"
    )
    assert failed.returncode == 3, failed.stderr
    assert "import digits: killed by the cluster: it used more memory than its 50 MB" in failed.stderr
    assert len(slurm.jobs(project.directory)) == 2


@pytest.mark.long
def test_a_pod_makes_results_on_the_shared_volume_and_a_failed_one_says_why(kubernetes: Project):
    done = kubernetes.make("--profile", "kubernetes", *OPTIONS, MODEL)
    assert done.returncode == 0, done.stderr
    assert (kubernetes.directory / MODEL).is_file()
    (kubernetes.directory / "digits.onnx").write_bytes(b"not a model")
    failed = kubernetes.make("--profile", "kubernetes", *OPTIONS, MODEL)
    assert failed.returncode != 0
    assert "error: digits.onnx: not an ONNX model" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.soak
def test_a_missing_image_is_named(kubernetes: Project):
    del kubernetes.environment["TVMAKE_IMAGE"]
    done = kubernetes.make("--profile", "kubernetes", *OPTIONS, MODEL)
    assert done.returncode == 3, done.stderr
    assert "error: kubernetes: TVMAKE_IMAGE is not set" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_asks_for_what_its_rule_needs():
    job = manifest({"mem_mb": 1500, "runtime": 20, "_cores": 4, "gres": ""})
    assert job["metadata"]["generateName"] == "tvmake-import-model-"
    assert job["spec"]["activeDeadlineSeconds"] == 1200
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"memory": "1500M", "cpu": "4"},
        "limits": {"memory": "1500M"},
    }
    assert container["workingDir"] == "/shared/project"
    assert {variable["name"] for variable in container["env"]} == set(IMAGE)
    json.dumps(job)


def test_a_devices_token_is_an_extended_resource():
    job = manifest({"mem_mb": 800, "runtime": 20, "gres": "phone:2"})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["tvmake/phone"] == "2"
    assert container["resources"]["requests"]["tvmake/phone"] == "2"
    named = manifest({"mem_mb": 800, "runtime": 20, "gres": "phone"})
    (container,) = named["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["tvmake/phone"] == "1"
