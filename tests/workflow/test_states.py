"""A project with networks that keep states, from the config to the page."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.frontend.onnx import models
from tests.workflow.project import Project
from tests.workflow.test_bad_input import refused

pytestmark = pytest.mark.long

STATE = {"h": "h_next", "c": "c_next"}


def lstm() -> onnx.ModelProto:
    """One step of an LSTM with a head, as exporters of streaming networks write it."""
    weights = {"w": models.random(1, 128, 16), "r": models.random(1, 128, 32), "b": models.random(1, 256)}
    weights = {name: numpy_helper.from_array(0.3 * value, name) for name, value in weights.items()}
    head = numpy_helper.from_array(models.random(32, 4), "head")
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["ys", "h_next", "c_next"], hidden_size=32),
        helper.make_node("Squeeze", ["ys", "axes"], ["row"]),
        helper.make_node("MatMul", ["row", "head"], ["y"]),
    ]
    value = lambda name, *shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    graph = helper.make_graph(
        nodes,
        "lstm",
        [value("x", 1, 1, 16), value("h", 1, 1, 32), value("c", 1, 1, 32)],
        [value("y", 1, 4), value("h_next", 1, 1, 32), value("c_next", 1, 1, 32)],
        [*weights.values(), head, numpy_helper.from_array(np.array([0, 1]), "axes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    directory = tmp_path_factory.mktemp("states") / "project"
    directory.mkdir()
    onnx.save(lstm(), directory / "lstm.onnx")
    frames = np.random.default_rng(0).normal(size=(48, 1, 1, 16)).astype("float32")
    np.savez(directory / "frames.npz", images=frames.reshape(48, 1, 16))
    project = Project(directory)
    project.write_config(
        {
            "models": {
                "lstm": {"source": "lstm.onnx", "state": STATE},
                "recorded": {
                    "source": "lstm.onnx",
                    "state": STATE,
                    "dataset": {"path": "frames.npz"},
                    "validation": {"steps": 12},
                    "precisions": ["float32"],
                },
            },
            "precisions": ["float32", "float16", "int8"],
            "targets": {"cpu": {"kind": "llvm", "mcpu": "native", "device": "local"}},
            "validation": {"samples": 64},
            "benchmark": {"repeat": 3, "warmup": 1},
        }
    )
    done = project.make()
    assert done.returncode == 0, done.stderr
    return project


def test_steps_of_a_sequence_equal_the_original_with_its_states_fed_back(project: Project):
    report = project.result("results/lstm/float32/cpu/numerics.json")["report"]
    assert (report["samples"], len(report["step_sqnr_db"])) == (64, 64)
    assert min(report["step_sqnr_db"]) > 100
    assert report["repeatable"] is True


def test_each_step_is_timed_in_turns_with_the_original(project: Project):
    latency = project.result("results/lstm/float32/cpu/latency.json")
    for steps in (latency["report"]["steps_ms"], latency["baseline"]["steps_ms"]):
        assert [len(sequence) for sequence in steps] == [64, 64, 64]
    recorded = project.result("results/recorded/float32/cpu/latency.json")
    assert [len(sequence) for sequence in recorded["report"]["steps_ms"]] == [12, 12, 12]
    page = (project.directory / "results/index.html").read_text()
    assert "Time of a step by its position" in page and "Latency by step of lstm/float32/cpu" in page


def test_lower_precisions_are_compared_over_steps_too(project: Project):
    for precision in ("float16", "int8"):
        report = project.result(f"results/lstm/{precision}/cpu/numerics.json")["report"]
        assert len(report["step_sqnr_db"]) == 64
        assert report["passed"], report["missed"]


def test_a_dataset_has_sequences_of_the_given_length(project: Project):
    report = project.result("results/recorded/float32/cpu/numerics.json")["report"]
    assert (report["samples"], len(report["step_sqnr_db"])) == (48, 12)
    assert min(report["step_sqnr_db"]) > 100


def test_the_baseline_and_the_self_test_run_with_states(project: Project):
    assert "problem" not in project.result("results/lstm/float32/cpu/latency.json")["baseline"]
    done = project.run("tvmake", "run", "--self-test", "results/lstm/float32/cpu/package.tar")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.result("results/lstm/float32/cpu/mod.json")["schema_version"] == 4


def test_other_states_make_another_network_and_other_steps_another_reference(project: Project):
    project.edit("models.recorded.validation.steps", 24)
    assert project.planned_rules() == {"reference": 1, "validate": 1, "benchmark": 1, "select": 1, "report": 1}
    project.edit("models.recorded.validation.steps", 12)
    project.edit("models.recorded.state", {"h": "h_next"})
    assert project.planned_rules()["import"] == 1
    project.edit("models.recorded.state", STATE)
    assert project.planned_rules() == {}


def test_names_that_do_not_exist_are_refused_before_anything_runs(project: Project):
    project.edit("models.recorded.state", {"h": "h_now"})
    for command in ("check", "make"):
        line = refused(project.run("tvmake", command), 1, "correct `state: {INPUT: OUTPUT}`")
        assert "models.recorded.state: it has no output 'h_now' for the next value of state 'h'" in line
    project.edit("models.recorded.state", STATE)


def test_debug_says_how_to_compare_single_runs(project: Project):
    line = refused(project.run("tvmake", "debug", "lstm/float32/cpu"), 1, "take `state` out of models.lstm")
    assert "keeps states from run to run" in line


def test_the_table_has_a_verdict_for_each_variant(project: Project):
    rows = project.result("results/summary.json")["rows"]
    verdicts = {(row["model"], row["precision"]): row["verdict"] for row in rows}
    assert {name for name, verdict in verdicts.items() if verdict == "pass"} >= {
        ("lstm", "float32"),
        ("recorded", "float32"),
    }
