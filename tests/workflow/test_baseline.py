"""The baseline beside a package's figures, from the config to the table."""

import json

from tests.workflow.project import Project, changed_weights


def latency(project: Project, precision: str = "float32") -> dict:
    return json.loads((project.directory / f"results/digits/{precision}/cpu/latency.json").read_text())


def rows(project: Project) -> list[dict]:
    return json.loads((project.directory / "results/summary.json").read_text())["rows"]


def test_every_package_on_this_machine_is_measured_by_turns_with_its_model_in_onnx_runtime(demo: Project):
    for precision in ("float32", "float16"):
        measured = latency(demo, precision)
        baseline = measured["baseline"]
        assert baseline["framework"].startswith("onnxruntime ")
        assert len(baseline["samples_ms"]) == len(measured["report"]["samples_ms"]) == 3
    for row in rows(demo):
        assert row["speedup"] == row["baseline_ms"] / row["latency_ms"]
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]


def test_a_model_that_has_changed_since_its_import_is_not_measured_as_the_imported_one(demo: Project):
    demo.edit("benchmark.repeat", 5)
    made = demo.make("-v", "results/digits/float32/cpu/latency.json").stderr
    command = next(line[line.index("tvmake step") :] for line in made.splitlines() if "tvmake step benchmark" in line)
    changed_weights(demo.directory / "digits.onnx", demo.directory / "digits.onnx")
    assert demo.run("bash", "-c", command).returncode == 1
    log = (demo.directory / "logs/digits/float32/cpu/benchmark.log").read_text()
    assert "digits.onnx: has changed since it was imported" in log
    assert "`tvmake make` imports the current file" in log


def test_the_table_says_how_many_times_as_fast_and_as_what(demo: Project):
    text = demo.run("tvmake", "status", "results").stdout
    assert "× baseline" in text.splitlines()[0]
    assert "times as fast as the model in onnxruntime" in text
    assert "below 1 it is slower" in text


def test_a_key_turns_the_baseline_off(demo: Project):
    demo.edit("benchmark.baseline", False)
    assert demo.make().returncode == 0
    assert latency(demo)["baseline"] is None
    assert {row["speedup"] for row in rows(demo)} == {None}
    assert "times as fast" not in demo.run("tvmake", "status", "results").stdout
