"""A project whose package has code for several shapes, from the config to the page."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx import models
from tests.workflow.project import Project

pytestmark = pytest.mark.long

VARIANT = "results/net/float32/cpu"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    directory = tmp_path_factory.mktemp("shapes") / "project"
    directory.mkdir()
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    weights = {"w": models.random(64, 96)}
    onnx.save(models.model(nodes, {"x": (models.FLOAT, ["batch", 64])}, ["y"], weights), directory / "net.onnx")
    project = Project(directory)
    project.write_config(
        {
            "models": {"net": {"source": "net.onnx", "shapes": [{"batch": 1}, {"batch": 8}]}},
            "targets": {"cpu": {"kind": "llvm", "mcpu": "native", "device": "local"}},
            "validation": {"samples": 4},
            "benchmark": {"repeat": 3, "warmup": 1, "baseline": False},
        }
    )
    done = project.make()
    assert done.returncode == 0, done.stderr
    return project


def test_each_shape_is_a_function_over_the_same_weights(project: Project):
    manifest = project.result(f"{VARIANT}/mod.json")
    assert manifest["schema_version"] == 3
    assert [function["sizes"] for function in manifest["functions"]] == [{"batch": 1}, {"batch": 8}, {}]
    # The width of its blocks depends on the processor's vectors.
    assert [math.prod(parameter["shape"]) for parameter in manifest["parameters"]] == [64 * 96]


def test_each_shape_is_validated_and_timed(project: Project):
    assert project.result(f"{VARIANT}/numerics.json")["report"]["samples"] == 4
    shapes = project.result(f"{VARIANT}/latency.json")["shapes"]
    assert [(shape["sizes"], len(shape["samples_ms"])) for shape in shapes] == [({"batch": 1}, 3), ({"batch": 8}, 3)]
    page = (project.directory / "results/index.html").read_text()
    assert "Latency by shape" in page


def test_a_package_runs_at_its_shapes_and_at_others(project: Project):
    weights = models.random(64, 96)
    for batch in (1, 8, 3):
        x = models.random(batch, 64)
        np.save(project.directory / "x.npy", x)
        done = project.run("tvmake", "run", f"{VARIANT}/package.tar", "-i", "x.npy", "-o", "y.npz")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(project.directory / "y.npz")["y"], np.tanh(x @ weights), atol=1e-5)


def test_other_shapes_rebuild_what_is_made_for_shapes(project: Project):
    before = project.config["models"]["net"]["shapes"]
    project.edit("models.net.shapes", [{"batch": 1}])
    assert project.planned_rules() == {
        "reference": 1, "self_test": 1, "build": 1, "export": 1, "attest": 1, "deploy": 1,
        "validate": 1, "benchmark": 1, "select": 1, "report": 1,
    }  # fmt: skip
    project.edit("models.net.shapes", before)
    assert project.planned_rules() == {}


def test_tuning_covers_all_functions_and_names_the_command_that_uses_it(project: Project):
    done = project.run("tvmake", "tune", "net.onnx", "--shape", "batch=1,8", "--trials", "3", "--kernels", "*matmul*")
    assert done.returncode == 0, done.stderr
    assert "`tvmake compile net.onnx --shape batch=1,8` uses them" in done.stdout
    (tasks,) = (project.directory / ".tvmake").rglob("tasks.json")
    listed = [task["points"] for task in json.loads(tasks.read_text())["tasks"] if "points" in task]
    assert listed and all([point["sizes"] for point in points] == [{"batch": 1}, {"batch": 8}] for points in listed)


def test_compile_names_the_shapes_and_what_other_sizes_take(project: Project, tmp_path: Path):
    done = project.run("tvmake", "compile", "net.onnx", "--shape", "batch=1,8", "-o", str(tmp_path / "net.tar"))
    assert done.returncode == 0, done.stderr
    assert "  shapes with their own code: batch=1; batch=8; other sizes take the dynamic code" in done.stdout
    texture = ["-t", "adreno-730-texture", "-o", str(tmp_path / "texture.tar")]
    done = project.run("tvmake", "compile", "net.onnx", "--shape", "batch=1,8", *texture)
    assert done.returncode == 0, done.stderr
    assert "  shapes with their own code: batch=1; batch=8\n  batch 2 to 4: 1 at a time\n" in done.stdout
    assert "  batch 5 to 7: padded to 8\n  batch 9 or more: 8 at a time, and the rest" in done.stdout
    assert "dynamic dimension" not in done.stdout
