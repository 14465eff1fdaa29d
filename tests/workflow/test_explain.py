"""`tvmake explain`, `status`, `logs` and `report` agree with what `tvmake make` would do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.project import Project, changed_weights
from tvmake.cli import run

PACKAGE = "results/digits/float32/cpu/package.tar"

PASS = """def unchanged():
    return lambda module: module{}


def broken():
    raise ValueError("no such luck")
"""


def explained(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.run("tvmake", "explain", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def standing(project: Project) -> dict[str, Any]:
    done = project.run("tvmake", "status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def why(found: dict[str, Any]) -> list[str]:
    return [
        f"{entry['stage']} {change['what']}: {change['before']} → {change['after']}"
        for entry in found["because"]
        for change in entry["changes"]
    ]


def test_what_made_a_package_of_what_and_when(demo: Project):
    found = explained(demo, PACKAGE)
    assert found["state"] == "made"
    assert found["stage"] == "export"
    assert found["command"].startswith("tvmake step export results/digits/float32/cpu/mod.so ")
    assert 0 < found["seconds"] < 600
    record = json.loads((demo.directory / "results/digits/float32/cpu/mod.json").read_text())
    assert record["files"]["mod.so"]["sha256"] == found["inputs"]["results/digits/float32/cpu/mod.so"]
    assert explained(demo, "digits/float32/cpu") == found
    text = demo.run("tvmake", "explain", PACKAGE).stdout
    assert "state    up to date" in text
    assert "tvmake step export" in text


def test_every_result_is_explained_and_up_to_date(
    single: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(single.directory)
    unexplained = {"results/config.resolved.yaml", *single.files("results/history/*")}
    for file in unexplained:
        run(["explain", file])
        assert "no job makes it: every r" in capfd.readouterr().err
    for file in single.files("results/**/*"):
        if not Path(file).name.startswith(".") and file not in unexplained:
            assert run(["explain", file, "--json"]) == 0
            assert json.loads(capfd.readouterr().out)["state"] == "made", file
    assert all(variant["state"] == "made" for variant in standing(single)["variants"].values())


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("build.opt_level", 2, "build build.opt_level: 3 → 2"),
        ("targets.cpu.mcpu", "x86-64", "build targets.cpu.mcpu: native → x86-64"),
        ("benchmark.repeat", 4, "benchmark benchmark.repeat: 3 → 4"),
        ("models.digits.dataset.limit", 8, "reference models.digits.dataset.limit: 16 → 8"),
        ("validation.goals", {"cosine": 0.9}, "validate goals.cosine: None → 0.9"),
        ("transform.layout", "NHWC", "transform transform.layout: keep → NHWC"),
        ("models.digits.inputs", {"image": {"range": [0, 1]}}, "import models.digits.inputs.image.range: None → [0.0, 1.0]"),
    ],
)  # fmt: skip
def test_a_changed_key_is_named_with_both_values(key: str, value: object, reason: str, demo: Project):
    demo.edit(key, value)
    last = "numerics.json" if "goals" in key or "dataset" in key else "latency.json"
    assert reason in why(explained(demo, f"results/digits/float32/cpu/{last}"))


def test_a_changed_model_is_named_with_both_digests(demo: Project):
    before = explained(demo, "results/digits/model.json")["inputs"]["digits.onnx"]
    changed_weights(demo.directory / "digits.onnx", demo.directory / "digits.onnx")
    (reason,) = {line for line in why(explained(demo, PACKAGE)) if line.startswith("import ")}
    assert reason.startswith(f"import digits.onnx: {before[:12]} → ")
    text = demo.run("tvmake", "explain", PACKAGE).stdout
    assert "rebuilds it if its inputs change" in text
    assert f"- import digits: digits.onnx: {before[:12]} → " in text


def test_a_changed_pass_is_named(demo: Project):
    (demo.directory / "passes.py").write_text(PASS.format(""))
    demo.edit("transform.passes", [{"use": "passes:unchanged", "at": "before_precision"}])
    done = demo.make("results/digits/float16/module.json")
    assert done.returncode == 0, done.stderr
    (demo.directory / "passes.py").write_text(PASS.format("  # as it is"))
    reasons = why(explained(demo, "results/digits/float16/module.json"))
    assert [reason.partition(":")[0] for reason in reasons] == ["transform passes.py"]


def test_another_version_of_a_library_is_named(demo: Project, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "known = metadata.version\n"
        'metadata.version = lambda name: "9.9" if name == "numpy" else known(name)\n'
    )
    demo.environment["PYTHONPATH"] = str(tmp_path)
    reasons = why(explained(demo, "results/digits/reference.npz"))
    assert any(reason.startswith("reference numpy: ") and reason.endswith(" → 9.9") for reason in reasons), reasons


def test_an_altered_result_and_a_removed_one_are_distinguished(demo: Project):
    library = demo.directory / "results/digits/float32/cpu/mod.so"
    library.write_bytes(library.read_bytes() + b"\0")
    assert explained(demo, str(library))["because"][0]["changes"][0]["kind"] == "altered"
    library.unlink()
    found = demo.run("tvmake", "explain", str(library))
    assert "mod.so was removed" in found.stdout


def test_a_failed_job_is_explained_by_its_log_and_its_log_is_the_first(single: Project):
    single.edit("transform.passes", [{"use": "passes:broken", "at": "before_legalize"}])
    (single.directory / "passes.py").write_text(PASS.format(""))
    assert single.make().returncode != 0
    found = explained(single, "results/digits/float32/cpu/mod.so")
    assert found["state"] == "failed"
    assert "no such luck" in " ".join(found["failure"])
    states = standing(single)["variants"]["digits/float32/cpu"]
    assert states["state"] == "failed"
    assert states["stages"]["build"] == {"failed": 1}
    assert states["stages"]["export"] == {"outdated": 1}
    logs = single.run("tvmake", "logs", "digits/float32/cpu")
    assert "==> logs/digits/float32/cpu/build.log (failed) <==" in logs.stderr
    assert "no such luck" in logs.stdout
    page = single.run("tvmake", "report")
    assert page.returncode == 0, page.stderr
    assert "no such luck" in Path(page.stdout.strip()).read_text()


def test_what_has_not_run_is_missing(fresh: Project):
    found = explained(fresh, PACKAGE)
    assert found["state"] == "missing"
    assert found["because"][0]["stage"] == "import"
    states = standing(fresh)
    assert {variant["state"] for variant in states["variants"].values()} == {"missing"}
    assert states["jobs"]["made"] == 0
    text = fresh.run("tvmake", "status").stdout
    assert text.splitlines()[-1].startswith("2 variants: 2 missing; ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "digits.onnx"), "no job makes such a file"),
        (("explain", "results/digit/model.json"), "the config has no model 'digit'"),
        (("explain", "results/digits/float16/gpu/mod.so"), "the config has no target 'gpu'"),
        (("logs", "digits/float32/cpus"), "did you mean 'digits/float32/cpu'?"),
        (("logs", "digits", "tune"), "the variant has no such stage"),
        (("status", "-d", "nowhere"), "nowhere: no such directory"),
        (("report",), "there are no results yet"),
    ],
)
def test_unknown_files_are_refused_in_one_line(arguments: tuple[str, ...], words: str, fresh: Project):
    done = fresh.run("tvmake", *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_is_found_by_variant_and_stage(demo: Project):
    done = demo.run("tvmake", "logs", "digits/float16/cpu", "transform")
    assert done.returncode == 0
    assert "logs/digits/float16/transform.log" in done.stderr
    assert '{"stage": "transform' in done.stdout
    listed = demo.run("tvmake", "logs", "digits/float16/cpu", "--list").stdout
    assert len(listed.splitlines()) == 10


def test_a_dry_run_names_keys_and_the_jobs_that_it_calls_certain_run(single: Project):
    single.edit("models.digits.inputs", {"image": {"range": [0, 1]}})
    planned = single.make("--dry-run").stderr
    assert "would import digits  (models.digits.inputs.image.range: not there → [0.0, 1.0])" in planned
    assert "would build digits float32 cpu  (its inputs may change)" in planned
    possible = re.findall(r"^would (.*?)  \((.*)\)$", planned, flags=re.MULTILINE)
    certain = {job for job, why in possible if why != "its inputs may change"}
    assert (
        f"up to {len(possible)} jobs would run: {len(certain)} for sure, the others if the results of those change"
        in planned
    )
    done = single.make()
    assert done.returncode == 0, done.stderr
    ran = set(re.findall(r"^✓ (.*?)  ", done.stderr, flags=re.MULTILINE))
    assert certain <= ran <= {job for job, _ in possible}


def test_a_first_dry_run_gives_one_reason_and_a_number(fresh: Project):
    planned = fresh.make("--dry-run").stderr
    assert set(re.findall(r"\((.*)\)$", planned, flags=re.MULTILINE)) == {"not made yet"}
    assert re.search(r"^\d+ jobs would run$", planned, flags=re.MULTILINE)


def test_a_run_says_where_each_package_is_and_why_each_job_ran(single: Project):
    single.edit("benchmark.repeat", 4)
    done = single.make("--verbose")
    assert done.returncode == 0, done.stderr
    assert PACKAGE in done.stdout
    assert "benchmark digits float32 cpu: benchmark.repeat: 3 → 4" in done.stderr
    assert f"tvmake step benchmark {PACKAGE}" in done.stderr
