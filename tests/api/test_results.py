"""`tvmake.Results`: a run's summary as typed rows, a table for pandas, and the fastest that is right."""

import sys
from pathlib import Path

import pytest

import tvmake
from tvmake.errors import InputError, MachineError
from tvmake.report.rows import Summary, SummaryRow
from tvmake.validate.verdict import MissedGoal


def row(precision: str, verdict: str, latency_ms: float | None, **more: object) -> SummaryRow:
    return SummaryRow(model="m", precision=precision, target="cpu", verdict=verdict, latency_ms=latency_ms, **more)


@pytest.fixture
def results(tmp_path: Path) -> tvmake.Results:
    from tvmake.artifact import stage_json
    from tvmake.device.fingerprint import local_fingerprint

    rows = [
        row("float32", "pass", 2.0, package="m/float32/cpu/package.tar"),
        row("float16", "fail", 1.0, missed=[MissedGoal(goal="max_abs", reason="the goal is 0.1")]),
        row("float16_acc32", "pass", 1.5),
        row("int8", "failed", None, stage="build", cause="it <b>broke</b>", remedy="mend it"),
    ]
    summary = Summary(
        created_at="2026-01-01T00:00:00+00:00",
        tvmake_version="0",
        tvm_version="0",
        machine=local_fingerprint(None),
        rows=rows,
    )
    stage_json.save(summary, tmp_path / "summary.json")
    return tvmake.Results(tmp_path)


def test_rows_are_typed_and_found_by_place_and_name(results: tvmake.Results):
    assert len(results) == 4
    assert [found.precision for found in results] == ["float32", "float16", "float16_acc32", "int8"]
    assert results[0] is results["m/float32/cpu"]
    with pytest.raises(KeyError):
        results["m/float64/cpu"]


def test_several_rows_are_a_slice_and_a_wrong_name_says_which_there_are(results: tvmake.Results):
    assert [row.precision for row in results[1:3]] == ["float16", "float16_acc32"]
    with pytest.raises(KeyError, match="m: no such variant; the variants are m/float32/cpu, m/float16/cpu"):
        _ = results["m"]


def test_the_best_is_the_fastest_that_meets_its_goals(results: tvmake.Results):
    assert results.best("m").precision == "float16_acc32"
    with pytest.raises(InputError, match="no variant of 'other' meets its goals"):
        results.best("other")
    with pytest.raises(InputError, match="no such variant"):
        results.best("m", "phone")


def test_a_row_leads_to_its_package(results: tvmake.Results, tmp_path: Path):
    assert results.package(results[0]) == tmp_path / "m/float32/cpu/package.tar"
    with pytest.raises(InputError, match="mend it"):
        results.package(results[3])


def test_pandas_gets_a_column_for_each_field(results: tvmake.Results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MachineError, match="pip install pandas"):
        results.to_pandas()
    monkeypatch.delitem(sys.modules, "pandas")
    pytest.importorskip("pandas", reason="pip install pandas")
    table = results.to_pandas()
    assert list(table.columns) == list(SummaryRow.model_fields)
    assert table.latency_ms.min() == 1.0


def test_what_a_notebook_shows_is_escaped(results: tvmake.Results):
    shown = results._repr_html_()
    assert "it &lt;b&gt;broke&lt;/b&gt;" in shown and shown.count("<tr>") == 5


def test_a_directory_without_results_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="no such summary"):
        tvmake.Results(tmp_path)
