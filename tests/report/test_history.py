"""What is kept of earlier runs."""

import re

import pytest

from tests.report.conftest import STEADY, gather
from tvmake.artifact import stage_json
from tvmake.errors import InputError, MachineError
from tvmake.report.history import DIRECTORY, KEPT, earlier_runs, keep_summary, measurements
from tvmake.report.load import load_summary


def at(summary, second):
    return summary.model_copy(update={"created_at": f"2026-01-01T00:00:{second:02}+00:00"})


def slower(summary, factor):
    rows = [row.model_copy(update={"p50_ms": row.p50_ms * factor}) for row in summary.rows]
    return summary.model_copy(update={"rows": rows})


def test_a_run_is_kept_and_can_be_compared_with_later(run):
    run.add()
    summary = run.report()
    (kept,) = earlier_runs(run.results).runs
    assert kept == summary
    (file,) = (run.results / DIRECTORY).iterdir()
    assert load_summary(file) == summary


def test_making_the_report_again_is_no_other_run(run):
    run.add()
    summary = gather(run.request)
    keep_summary(at(summary, 1), run.results)
    keep_summary(at(summary, 2), run.results)
    assert [kept.created_at for kept in earlier_runs(run.results).runs] == ["2026-01-01T00:00:01+00:00"]


def test_the_oldest_make_room(run):
    run.add()
    summary = gather(run.request)
    for number in range(KEPT + 3):
        keep_summary(at(slower(summary, 1 + number), number), run.results)
    found = earlier_runs(run.results).runs
    assert len(found) == KEPT
    assert found[0].created_at == "2026-01-01T00:00:03+00:00"


def test_a_damaged_file_is_left_out(run):
    run.add()
    keep_summary(at(gather(run.request), 1), run.results)
    (run.results / DIRECTORY / "2025-01-01T000000+0000.json").write_text("{")
    assert len(earlier_runs(run.results).runs) == 1


@pytest.mark.parametrize("alter", [lambda text: re.sub(r"\d", "7", text), lambda text: text[:-40], lambda text: ""])
def test_an_altered_earlier_run_is_named_and_its_figures_are_shown_nowhere(run, alter):
    run.add(samples_ms=STEADY)
    now = run.report()
    (file,) = (run.results / DIRECTORY).iterdir()
    file.write_text(alter(file.read_text()))
    with pytest.raises(InputError, match="not as the report left it, or of another version of tvmake"):
        load_summary(file)
    again = run.report()
    assert again.rows == now.rows
    assert again.warnings == [
        f"excluded from the earlier runs: {file}: not as the report left it, or of another version of tvmake"
    ]
    assert file.name in run.file("index.html").read_text()


def test_a_run_that_was_renamed_keeps_its_place(run):
    run.add()
    summary = gather(run.request)
    for number in (1, 2):
        keep_summary(at(slower(summary, number), number), run.results)
    older, _ = sorted((run.results / DIRECTORY).iterdir())
    older.rename(older.with_name("2027-01-01T000000+0000.json"))
    assert [kept.created_at[17:19] for kept in earlier_runs(run.results).runs] == ["01", "02"]


def test_a_file_instead_of_what_is_kept_is_named(run):
    run.add()
    (run.results / DIRECTORY).write_text("")
    with pytest.raises(MachineError, match=r"history/.*cannot be written"):
        keep_summary(gather(run.request), run.results)


def test_a_summary_that_someone_keeps_in_a_directory_of_that_name_is_a_summary(run, tmp_path):
    summary = gather(run)
    mine = tmp_path / DIRECTORY / "before.json"
    stage_json.save(summary, mine)
    assert load_summary(mine) == summary


def test_files_of_other_names_are_neither_read_nor_deleted(run):
    run.add()
    summary = gather(run.request)
    keep_summary(at(summary, 1), run.results)
    mine = [run.results / DIRECTORY / name for name in ("0-mine.json", "zz.json")]
    for path in mine:
        path.write_bytes(next((run.results / DIRECTORY).glob("2026*.json")).read_bytes())
    (run.results / DIRECTORY / "2020-01-01T000000.json").mkdir()
    for number in range(2, KEPT + 5):
        keep_summary(at(slower(summary, 1 + number), number), run.results)
    assert len(earlier_runs(run.results).runs) == KEPT
    assert all(path.exists() for path in mine)


def test_a_measurement_that_later_runs_took_over_counts_once(run):
    run.add(samples_ms=STEADY)
    now = gather(run.request)
    old = slower(now, 2)
    runs = [at(old, 1), at(old, 2), at(now, 3)]
    found = measurements(now.rows, runs)["digits/float32/cpu"]
    assert [when for when, _ in found] == ["2026-01-01T00:00:01+00:00"]


def test_a_model_may_not_be_called_as_what_is_kept():
    from tvmake.config.root import RESERVED_MODEL_NAMES

    assert DIRECTORY in RESERVED_MODEL_NAMES
