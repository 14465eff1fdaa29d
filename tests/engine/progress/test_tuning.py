"""The progress of a search, from its event log."""

import json
from pathlib import Path

import pytest

from tvmake.engine.progress.tuning import TuningProgress

START = {"at_s": 0.0, "event": "start", "name": "conv2d", "trials": 8, "flops": 1e9}


def trial(number: int, at_s: float, best_ms: float, status: str = "ok", now_ms: float | None = None) -> dict:
    """One line of the log."""
    latency_ms = (now_ms or best_ms) if status == "ok" else None
    return {
        "at_s": at_s,
        "event": "trial",
        "trial": number,
        "status": status,
        "latency_ms": latency_ms,
        "best_ms": best_ms,
        "gflops": 1 / best_ms,
    }


def stop(why: str, best_ms: float) -> dict:
    """The last line of a log."""
    return {"at_s": 3.0, "event": "stop", "why": why, "best_ms": best_ms, "gflops": 1 / best_ms}


def write(log: Path, *events: dict, rest: str = "") -> None:
    """Append lines to a log."""
    with log.open("a") as file:
        file.write("".join(json.dumps(event) + "\n" for event in events) + rest)


def test_a_finished_search_is_summed_up(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    progress.started(1, log, "tune conv2d")
    write(log, START, trial(1, 1.0, 2.0), trial(2, 2.0, 0.5, "timeout"), stop("deadline", 0.5))
    assert progress.finished(1) == "best 0.5 ms, 2 GFLOPS, 1 failed, deadline"
    assert progress.finished(1) == ""


def test_a_candidate_whose_device_was_lost_has_not_failed(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    progress.started(1, log, "tune conv2d")
    write(log, START, trial(1, 1.0, 2.0), trial(2, 2.0, 2.0, "device_lost"), stop("budget", 2.0))
    assert progress.finished(1) == "best 2 ms, 0.5 GFLOPS"


def test_a_running_search_says_how_long_it_will_take(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    progress.started(1, log, "tune conv2d")
    write(log, START, trial(1, 1.0, 0.5), trial(2, 2.0, 0.5, now_ms=2.0), rest='{"at_s": 3.0, "ev')
    assert progress.kernels[1].read()
    assert progress.kernels[1].summary() == "best 0.5 ms, 2 GFLOPS, now 2 ms, 0.5 GFLOPS, 6 s left"


@pytest.mark.parametrize("trials", [1, 5])
def test_the_log_of_an_earlier_run_does_not_count_whichever_is_longer(tmp_path: Path, trials: int):
    log = tmp_path / "x.events.jsonl"
    write(log, START, *(trial(number, 1.0, 2.0, "timeout") for number in range(1, trials + 1)))
    progress = TuningProgress(None)
    progress.started(1, log, "tune conv2d")
    log.unlink()  # Snakemake does, before a job starts
    write(log, START, trial(6, 1.0, 0.25), stop("budget", 0.25))
    assert progress.finished(1) == "best 0.25 ms, 4 GFLOPS"


def test_a_comparison_of_layouts_shows_the_kernel_it_is_at_and_ends_with_its_choice(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    progress.started(1, log, "choose_layout digits float32 cpu")
    write(log, START, trial(1, 1.0, 2.0, "timeout"), stop("early stopping", 2.0))
    write(log, {**START, "name": "conv2d in NHWC"}, trial(1, 1.0, 0.5))
    assert progress.kernels[1].read()
    assert progress.kernels[1].name == "conv2d in NHWC"
    assert progress.kernels[1].summary() == "best 0.5 ms, 2 GFLOPS, now 0.5 ms, 2 GFLOPS, 7 s left"
    write(log, {"at_s": 0.0, "event": "layout", "message": "NHWC, 0.31 ms against 0.44 ms NCHW"})
    assert progress.finished(1) == "NHWC, 0.31 ms against 0.44 ms NCHW"


def test_a_search_that_had_its_budget_already_says_what_it_knows(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    progress.started(1, log, "tune conv2d")
    write(log, START, stop("budget", 0.25))
    assert progress.finished(1) == "best 0.25 ms, 4 GFLOPS"


def test_devices_that_were_set_aside_and_throttled_candidates_are_named(tmp_path: Path):
    progress = TuningProgress(None)
    log = tmp_path / "x.events.jsonl"
    aside = {"at_s": 1.5, "event": "aside", "message": "device 'phone' (TWO): set aside after 3 failures (no answer)"}
    progress.started(1, log, "tune conv2d")
    write(log, START, trial(1, 1.0, 0.5), aside, {**trial(2, 2.0, 0.5), "throttled": True})
    assert progress.kernels[1].read()
    assert "1 throttled" in progress.kernels[1].summary() and aside["message"] in progress.kernels[1].summary()
    write(log, aside, stop("budget", 0.5))
    assert progress.finished(1) == f"best 0.5 ms, 2 GFLOPS, 1 throttled, {aside['message']}"
