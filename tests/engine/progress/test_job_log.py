"""A job's outcome, from its log."""

from pathlib import Path

import pytest

from tvmake.engine.progress.job_log import ending, failure_lines, note_stopped

ENDED = '{"stage": "build", "exit": %d, "wall_s": 1.0}\n'


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("", "cut short"),
        ("reading\n", "cut short"),
        (ENDED % 0, "ended"),
        (f"error: digits.onnx: no such file\n{ENDED % 1}", "failed"),
        (ENDED % 1, "failed"),
        (f"error: build: interrupted; no incomplete file is left, run again to continue\n{ENDED % 130}", "interrupted"),
        (f"{ENDED % -15}error: build: ended by SIGTERM; no incomplete file is left, run again\n", "interrupted"),
        ("interrupted; finished results are kept; run the same command to resume\n", "interrupted"),
        ("error: model 'interrupted; or so': no such file\n", "failed"),
    ],
)
def test_how_a_job_ended(tmp_path: Path, text: str, how: str):
    log = tmp_path / "build.log"
    log.write_text(text)
    assert ending(log) == how


def test_a_missing_log_has_no_ending(tmp_path: Path):
    assert ending(tmp_path / "build.log") == "none"


def test_jobs_that_went_down_with_a_stopped_run_have_not_failed(tmp_path: Path):
    logs = {"cut": "", "done": ENDED % 0, "wrong": "error: no memory\n"}
    for name, text in logs.items():
        (tmp_path / f"{name}.log").write_text(text)
    (tmp_path / "events.jsonl").write_text("")
    note_stopped(tmp_path.iterdir())
    assert {name: ending(tmp_path / f"{name}.log") for name in logs} == {
        "cut": "interrupted",
        "done": "ended",
        "wrong": "failed",
    }
    assert (tmp_path / "events.jsonl").read_text() == ""


def test_the_reason_is_shown_if_llvm_ends_a_step(tmp_path):
    log = tmp_path / "build.log"
    log.write_text(
        'LLVM ERROR: IO failure on output stream: No space left on device\n{"stage": "build", "exit": 1, "wall_s": 1}\n'
        "error: build: its process exited with code 1\n  look for os._exit() in the model's code\n"
    )
    cause, remedy = failure_lines(log)
    assert cause == "error: a temporary file cannot be written: no space left on device"
    assert "TMPDIR" in remedy
    log.write_text('what a library prints\n{"stage": "build", "exit": 1, "wall_s": 1}\n')
    assert failure_lines(log) == ["what a library prints"]
