"""Damage in Snakemake's own notes costs the jobs that they stand for, and nothing more."""

import base64
import shutil
from pathlib import Path

import pytest

from tests.workflow.project import Project
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import record_file

LATENCY = "results/digits/float32/cpu/latency.json"


def test_a_project_with_damaged_records_is_made_again(demo: Project):
    records = [path for path in (demo.directory / ".snakemake" / "metadata").rglob("*") if path.is_file()]
    for number, path in enumerate(sorted(records)):
        content = bytearray(path.read_bytes())
        content[number * 7 % 40] ^= 0x80
        path.write_bytes(bytes(content))
    demo.edit("benchmark.repeat", 4)
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert f"{len(records)} records that cannot be read" in done.stderr
    assert len(demo.result(LATENCY)["report"]["samples_ms"]) == 4
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1


def test_a_change_is_seen_where_the_records_of_what_it_concerns_are_gone(demo: Project):
    for path in (demo.directory / ".snakemake" / "metadata").iterdir():
        path.unlink()
    demo.edit("benchmark.repeat", 4)
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert len(demo.result(LATENCY)["report"]["samples_ms"]) == 4


def test_directories_and_links_in_the_place_of_records_cost_what_they_stand_for(demo: Project, tmp_path: Path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    for place in (
        record_file(LATENCY),
        SNAKEMAKE_STATE / "metadata" / base64.urlsafe_b64encode(LATENCY.encode()).decode(),
    ):
        path = demo.directory / place
        path.unlink()
        path.mkdir()
        (path / "link").symlink_to(mine)
    demo.edit("benchmark.repeat", 4)
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert len(demo.result(LATENCY)["report"]["samples_ms"]) == 4
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1
    assert (mine / "file").exists()


@pytest.mark.parametrize("lost", [["metadata", "tvmake-jobs"], ["."]], ids=["records", "everything"])
def test_results_that_came_without_any_record_are_made_again_and_a_look_says_so(demo: Project, lost: list[str]):
    """Copied without .snakemake, they may be of any config: those of another one passed for up to date."""
    for notes in lost:
        shutil.rmtree(demo.directory / ".snakemake" / notes)
    demo.edit("build.opt_level", 1)
    assert {"import", "build", "report"} <= set(demo.planned_rules())
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert "note: nothing is known of how" in done.stderr and "such as results/digits/" in done.stderr
    assert demo.result("results/digits/float32/cpu/mod.json")["build"]["build"] == {"opt_level": 1}
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1
