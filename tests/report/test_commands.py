import json
import os
import shutil
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from tvmake.api.results import Results
from tvmake.cli.results.diff import diff
from tvmake.cli.results.status import status
from tvmake.errors import InputError
from tvmake.storage.notes.job_records import record_job


@pytest.fixture
def tvmake():
    app = typer.Typer()
    app.command("status")(status)
    app.command("diff")(diff)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_status_of_results_prints_a_finished_run_by_directory_or_file(run, tvmake):
    run.add()
    run.report()
    by_directory, by_file = tvmake("status", run.results), tvmake("status", run.file("summary.json"))
    assert by_directory.exit_code == 0
    assert "digits" in by_directory.stdout
    assert by_directory.stdout == by_file.stdout


@pytest.mark.parametrize("named", ["digits/float32/cpu", "digits", "digits/float32/cpu/"])
def test_status_of_results_prints_the_rows_of_a_variant_or_a_model(run, tvmake, monkeypatch, named):
    run.add()
    run.add(model="other")
    run.report()
    monkeypatch.chdir(run.results.parent)
    alone, placed = tvmake("status", named), tvmake("status", run.results, named)
    assert (alone.exit_code, alone.stdout) == (0, placed.stdout)
    assert "digits" in alone.stdout and "other" not in alone.stdout
    rows = json.loads(tvmake("status", named, "--json").stdout)["rows"]
    assert [row["model"] for row in rows] == ["digits"]


def test_a_mistyped_variant_is_answered_with_the_nearest(run, tvmake, monkeypatch):
    run.add()
    run.report()
    monkeypatch.chdir(run.results.parent)
    refused = str(tvmake("status", "digits/float32/cpy").exception)
    assert "digits/float32/cpy: is neither a variant or model of results, nor a results directory" in refused
    assert "did you mean 'digits/float32/cpu'?" in refused


def test_status_of_results_says_that_there_is_no_run(tmp_path, tvmake):
    result = tvmake("status", tmp_path)
    assert isinstance(result.exception, InputError)
    assert str(tmp_path / "summary.json") in str(result.exception)


def test_status_of_results_refuses_a_summary_of_another_kind(tmp_path, tvmake):
    (tmp_path / "summary.json").write_text('{"schema_version": 99}')
    assert isinstance(tvmake("status", tmp_path).exception, InputError)


@pytest.mark.parametrize("content", ["", "some text", "\x08\x07"])
def test_a_file_that_is_not_a_summary_is_called_that_and_not_one_of_another_version(tmp_path, tvmake, content):
    file = tmp_path / "other.onnx"
    file.write_text(content)
    for command in (["status", file], ["diff", file, tmp_path]):
        refused = str(tvmake(*command).exception)
        assert ("is not a summary of a run" if content else "is empty") in refused
        assert "version" not in refused.splitlines()[0]


def test_pipes_and_links_instead_of_a_summary_are_named_as_those(tmp_path, tvmake):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert "it is a pipe" in str(tvmake("status", tmp_path / "pipe").exception)
    assert "too many levels of symbolic links" in str(tvmake("status", tmp_path / "circle").exception)


def test_a_summary_that_was_altered_since_it_was_made_is_refused_by_every_reader(run, tvmake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run.results = run.results.relative_to(tmp_path)
    run.add()
    summary = run.file("summary.json")
    with record_job([], [summary]):
        run.report()
    other = tmp_path.parent / "copy.json"
    other.write_text(summary.read_text().replace("Test SoC", "Best SoC"))
    shutil.copy(other, summary)
    for command in (["status", run.results], ["status", summary], ["diff", other, run.results]):
        assert "its content differs" in str(tvmake(*command).exception)
    with pytest.raises(InputError, match="its content differs"):
        Results(run.results)
    assert tvmake("status", other).exit_code == 0, "nothing is known of a summary from elsewhere"


@pytest.mark.parametrize("mark", [{"verdict": "pass"}, {"best": True}, {"missed": []}])
def test_no_row_is_read_that_says_pass_or_best_beside_a_missed_goal(run, tvmake, mark):
    run.add(error=0.5)
    said = run.report().model_dump(mode="json")
    assert said["rows"][0]["verdict"] == "fail"
    said["rows"][0].update(mark)
    run.file("summary.json").write_text(json.dumps(said))
    shown = tvmake("status", run.results)
    assert "the verdict is" in str(shown.exception)


def test_diff_exits_with_4_only_when_a_regression_was_to_fail_it(run, another_run, tvmake):
    run.add(samples_ms=[1.0] * 10)
    another_run.add(samples_ms=[2.0] * 10)
    run.report()
    another_run.report()
    old, new = run.file("summary.json"), another_run.file("summary.json")
    assert tvmake("diff", old, new).exit_code == 0
    assert tvmake("diff", old, new, "--fail-on-regression", 5).exit_code == 4
    assert tvmake("diff", new, old, "--fail-on-regression", 5).exit_code == 0
    for percent in ("nan", "inf", "5%"):
        assert tvmake("diff", old, new, "--fail-on-regression", percent).exit_code == 2


def test_diff_names_the_variants_whose_latency_its_gate_does_not_judge(run, another_run, tvmake):
    for each, soc in ((run, "Fast SoC"), (another_run, "Slow SoC")):
        each.add()
        each.add(target="phone", soc=soc)
        each.report()
    result = tvmake("diff", run.results, another_run.results, "--fail-on-regression", 5)
    assert result.exit_code == 0
    assert "digits/float32/phone: its latency is not comparable; --fail-on-regression ignores it" in result.stderr


@pytest.mark.parametrize(
    "module",
    ["tvmake.stages.results.report", "tvmake.cli.results.summary", "tvmake.cli.results.diff", "tvmake.report.terminal"],
)
def test_no_compiler_framework_or_template_engine_is_imported_with(module):
    heavy = "{'tvm', 'torch', 'onnx', 'onnxruntime', 'jinja2', 'pandas'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_is_made_without_tvm_torch_and_onnx(run):
    run.add()
    script = (
        "import sys; from pathlib import Path\n"
        "from tvmake.config.requests.reporting import ReportRequest\n"
        "from tvmake.stages.results.report import report\n"
        "from tvmake.stages.results.select import select\n"
        f"request = ReportRequest.model_validate_json({run.request.model_dump_json()!r})\n"
        f"selection = Path({str(run.file('selection.json'))!r})\n"
        f"select(request, selection, Path({str(run.file('best'))!r}))\n"
        f"report(request, selection, *map(Path, {[str(run.file(name)) for name in ('summary.json', 'summary.csv', 'index.html')]!r}))\n"
        "print(sorted({'tvm', 'torch', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
