"""A failure is a result: a row with its reason, beside the figures of the finished variants."""

import csv
import subprocess
from pathlib import Path

import pytest

from tests.workflow.faults import Faults
from tests.workflow.project import Project
from tvmake.report.rows import SummaryRow

pytestmark = pytest.mark.long

VARIANT = "results/digits/float32/cpu"


@pytest.fixture
def broken(single: Project) -> Project:
    """A finished project with an additional model that cannot be read."""
    (single.directory / "broken.onnx").write_bytes(b"not a model")
    single.edit("models.broken", {"source": "broken.onnx"})
    return single


def rows(project: Project) -> dict[str, dict]:
    return {row["model"]: row for row in project.result("results/summary.json")["rows"]}


def test_a_variant_that_fails_is_a_row_in_table_summary_csv_and_page(broken: Project):
    done = broken.make()
    assert done.returncode == 1
    failed = rows(broken)["broken"]
    assert (failed["verdict"], failed["stage"], failed["log"]) == ("failed", "import", "logs/broken/import.log")
    assert failed["cause"].startswith("broken.onnx: not an ONNX model")
    assert failed["remedy"].startswith("Download or copy the file again")
    assert rows(broken)["digits"]["verdict"] == "pass"
    assert "broken/float32/cpu: import: broken.onnx: not an ONNX model" in done.stdout
    assert "1 pass, 1 failed" in done.stdout
    table = list(csv.DictReader((broken.directory / "results/summary.csv").read_text().splitlines()))
    assert [(row["model"], row["verdict"]) for row in table] == [("digits", "pass"), ("broken", "failed")]
    assert failed["cause"] in (broken.directory / "results/index.html").read_text()


def test_the_report_is_rebuilt_once_nothing_fails(broken: Project):
    broken.make()
    broken.edit("models.broken", None)
    done = broken.make()
    assert done.returncode == 0, done.stderr
    assert "altered: its content differs" not in done.stderr
    assert rows(broken).keys() == {"digits"}
    assert broken.planned_rules() == {}


def test_an_edited_summary_of_a_failed_run_is_refused_and_rebuilt(broken: Project):
    broken.make()
    summary = broken.directory / "results/summary.json"
    made = summary.read_bytes()
    assert "1 pass, 1 failed" in show(broken).stdout
    summary.write_bytes(made.replace(b'"verdict": "failed"', b'"verdict": "pass"'))
    assert summary.read_bytes() != made
    for command in (["status", "results"], ["diff", "results/summary.json", "results"]):
        done = broken.run("tvmake", *command)
        assert done.returncode == 1 and "altered: its content differs" in done.stderr, done.stdout
    assert broken.run("tvmake", "report").returncode == 0
    assert rows(broken)["broken"]["verdict"] == "failed"
    (broken.directory / VARIANT / "numerics.json").unlink()
    assert f"these figures belong to an earlier run: {VARIANT}/numerics.json" in show(broken).stderr


def test_a_row_of_a_job_that_failed_later_names_its_stage_and_a_run_that_was_stopped_says_so(
    broken: Project, tmp_path: Path
):
    broken.edit("models.broken", None)
    broken.edit("benchmark.repeat", 4)
    faults = Faults(broken, tmp_path / "faults")
    faults.before(f"{VARIANT}/latency.json", "kill worker")
    assert broken.make().returncode == 3
    broken.environment.clear()
    row = SummaryRow.model_validate(rows(broken)["digits"])
    assert (row.verdict, row.stage, row.package) == ("failed", "benchmark", None)
    assert "SIGKILL" in (row.cause or "")


def show(project: Project) -> subprocess.CompletedProcess[str]:
    done = project.run("tvmake", "status", "results")
    assert done.returncode == 0, done.stderr
    return done


def test_figures_that_a_later_run_did_not_confirm_are_marked(single: Project):
    assert "earlier run" not in show(single).stderr
    (single.directory / VARIANT / "numerics.json").unlink()
    assert f"these figures belong to an earlier run: {VARIANT}/numerics.json" in show(single).stderr
    compared = single.run("tvmake", "diff", "results", "results/summary.json", "--json").stderr
    for run in ("results", "results/summary.json"):
        assert f"{run}: these figures belong to an earlier run: {VARIANT}/numerics.json" in compared
    assert single.make().returncode == 0
    assert "earlier run" not in show(single).stderr


def test_with_stop_early_nothing_starts_after_the_first_failure(fresh: Project):
    digits = fresh.config["models"]["digits"]
    fresh.write_config({**fresh.config, "precisions": ["float32"]})
    fresh.edit("models.second", {**digits, "source": "second.onnx"})
    (fresh.directory / "second.onnx").write_bytes((fresh.directory / "digits.onnx").read_bytes()[:-500])
    first = ("--cores", "1", "--prioritize", "results/second/model.json")
    done = fresh.make("--stop-early", *first)
    assert done.returncode == 1 and "second.onnx" in done.stderr
    assert not (fresh.directory / "results/digits/model.json").exists()
    assert fresh.make(*first).returncode == 1
    assert (fresh.directory / "results/digits/float32/cpu/latency.json").exists()
