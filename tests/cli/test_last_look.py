"""When a run may say to the next one that there is nothing to do."""

from argparse import Namespace
from pathlib import Path

import pytest

from tvmake.cli import last_look, unchanged
from tvmake.cli.last_look import LastLook
from tvmake.cli.planned_jobs import PlannedJob
from tvmake.cli.rounds import make_in_rounds

JOB = PlannedJob("build", ("module.json",), ("mod.so",))
ARGS = Namespace(keep_going=True, targets=[])


class Project:
    """Stands in for Snakemake: says what is left to do, and does it."""

    def __init__(self, left: list[PlannedJob] | None):
        self.left = left
        self.asked = 0

    def plan(self, _: Namespace) -> list[PlannedJob] | None:
        self.asked += 1
        return self.left

    def make(self, _: Namespace) -> bool:
        self.left = []
        return True

    def run(self) -> LastLook:
        look = LastLook(self.plan, self.make)
        assert make_in_rounds(ARGS, True, look.plan, look.make)
        return look


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unchanged.STATE.mkdir()
    unchanged.NOTE.write_text("{}")


def test_a_look_that_finds_nothing_to_do_counts_and_the_note_stays_until_it_is_written_anew():
    assert Project([]).run().found_nothing is not None
    assert unchanged.NOTE.exists()


@pytest.mark.parametrize("left", [[JOB], None])
def test_a_run_that_makes_something_removes_the_note_and_does_not_count(left: list[PlannedJob] | None):
    assert Project(left).run().found_nothing is None
    assert not unchanged.NOTE.exists()


def test_a_short_run_is_not_looked_at_again():
    project = Project([JOB])
    look = project.run()
    look.confirm(ARGS)
    assert (project.asked, look.found_nothing) == (1, None)


def test_a_long_run_is_looked_at_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(last_look, "LONG_S", 0.0)
    monkeypatch.setattr(last_look, "SHARE", 0)
    monkeypatch.setattr(last_look, "SETTLED_NS", 0)
    project = Project([JOB])
    look = project.run()
    look.confirm(ARGS)
    assert project.asked == 2
    assert look.found_nothing is not None
