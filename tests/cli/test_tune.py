"""`tvmake tune`: results are stored, reported, and used by a later `tvmake compile`."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.workflow.project import Project, model_project

QUICK = ("--set", "tuning.rounds=1", "--set", "tuning.cost_model=random", "--set", "tuning.measure.min_repeat_ms=0")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return model_project(tmp_path / "project")


def test_a_later_compile_takes_what_was_found(project: Project):
    done = project.run("tvmake", "tune", "digits.onnx", "--trials", "6", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["trials"] >= 6
    assert found["best_ms"] > 0
    assert found["tuned"] == sum(kernel["best_ms"] is not None for kernel in found["kernels"]) > 0
    assert Path(found["store"]) == project.directory.parent / "home/records"
    compiled = project.run("tvmake", "compile", "digits.onnx")  # uses the search's settings
    assert compiled.returncode == 0, compiled.stderr
    assert "note: using the kernels that `tvmake tune` found in 6 trials" in compiled.stderr
    assert "✓ tune" not in compiled.stderr
    manifest = project.run("tar", "-xOf", "digits.tar", "mod.json")
    assert sum(kernel["scheduled"] == "record" for kernel in json.loads(manifest.stdout)["kernels"]) > 0
    without = project.run("tvmake", "compile", "digits.onnx", "--tune", "0", "-o", "plain.tar", "--quiet")
    assert without.returncode == 0, without.stderr
    assert "✓" not in without.stderr
    assert project.files("plain.tar").values() != project.files("digits.tar").values()


def test_the_table_says_trials_latency_and_where_records_lie(project: Project):
    listed = project.run("tvmake", "tune", "digits.onnx", "--list", "--json")
    first, second, *_, last = json.loads(listed.stdout)
    assert first["mflop"] >= second["mflop"] >= last["mflop"]
    assert last["not_tuned"] and not first["not_tuned"]
    done = project.run("tvmake", "tune", "digits.onnx", "-n", "3", "--kernels", first["kernel"], *QUICK)
    assert done.returncode == 0, done.stderr
    assert f"✓ tune {first['kernel']}" in done.stderr
    assert second["kernel"] not in done.stderr
    assert "1 kernel of " in done.stdout
    assert f"records: {project.directory.parent / 'home/records'}" in done.stdout
    assert "`tvmake compile digits.onnx` uses them" in done.stdout


def test_a_kernel_with_a_dynamic_dimension_is_tuned_at_several_sizes(project: Project):
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 64])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 64])
    weights = onnx.numpy_helper.from_array(np.ones((64, 64), "float32"), "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "open", [x], [y], [weights])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        project.directory / "open.onnx",
    )
    done = project.run("tvmake", "tune", "open.onnx", "-n", "4", "--dim", "n=1..64", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert kernel["trials"] == 4 and kernel["best_ms"] > 0
    shown = project.run("tvmake", "records", "show", kernel["workload"])
    assert "sizes     n=1; n=3; n=7; n=23; n=64" in shown.stdout


MISTAKES = {
    "no device": (["digits.onnx", "-t", "adreno-730-texture", "-n", "8"], "name the device: --device"),
    "no such device": (["digits.onnx", "-n", "8", "-D", "phone"], "no device 'phone'"),
    "no host": (["digits.onnx", "-n", "8", "-D", "ssh"], "needs a host"),
    "no port": (["digits.onnx", "-n", "8", "-D", "rpc:farm/key"], "expected host:port"),
    "no trials": (["digits.onnx", "-n", "0"], "--trials"),
    "no model": (["none.onnx", "-n", "8"], "none.onnx: no such file"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(arguments: list[str], words: str, project: Project):
    done = project.run("tvmake", "tune", *arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
