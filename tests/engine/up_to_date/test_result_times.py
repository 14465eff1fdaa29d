"""Times of results: those that are links to one file have one time."""

import os
from pathlib import Path

import pytest

from tvmake.engine.up_to_date.result_times import LONG_AGO_S, set_result_times
from tvmake.plan.jobs import Job
from tvmake.storage.notes.job_records import record_job


def job(stage: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Job:
    return Job(stage, stage, {}, "", "", inputs, (), (), outputs, f"{stage}.log")


IMPORT = job("import", (), ("model.json", "model.params"))
FLOAT16 = job("float16", IMPORT.outputs, ("half.json", "half.params"))
FLOAT32 = job("float32", IMPORT.outputs, ("module.json", "module.params"))
BUILD = job("build", FLOAT32.outputs, ("mod.so", "mod.params"))
JOBS = (IMPORT, FLOAT16, FLOAT32, BUILD)
WEIGHTS = ("model.params", "module.params", "mod.params")


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of four jobs, of which three share the weights; the last one wrote the newest time to all three."""
    monkeypatch.chdir(tmp_path)
    for number, made in enumerate(JOBS):
        with record_job(map(Path, made.inputs), map(Path, made.outputs)):
            for name in made.outputs:
                if name in WEIGHTS[1:]:
                    os.link(WEIGHTS[0], name)
                else:
                    Path(name).write_text(name)
                os.utime(name, (1000 + number, 1000 + number))


def time_of(name: str) -> float:
    return Path(name).stat().st_mtime


def are_newer(made: Job) -> bool:
    return min(map(time_of, made.outputs)) >= max(map(time_of, made.inputs))


def test_results_are_newer_than_what_they_read_though_a_later_job_changed_its_time():
    assert not are_newer(FLOAT16)
    set_result_times(JOBS)
    assert all(map(are_newer, JOBS[1:]))


def test_results_of_a_changed_input_are_older_though_they_share_a_file():
    Path("module.json").write_text("another")
    set_result_times(JOBS)
    assert time_of("mod.so") == LONG_AGO_S
    assert all(map(are_newer, JOBS[1:-1]))


def test_times_that_cannot_be_set_end_the_search():
    Path("half.json").unlink()
    set_result_times(JOBS)
    assert are_newer(FLOAT32) and are_newer(BUILD)
