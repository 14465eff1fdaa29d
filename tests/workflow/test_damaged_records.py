"""Damage in Snakemake's own notes costs the jobs that they stand for, and nothing more."""

import base64
import shutil
from pathlib import Path

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


def test_results_without_any_record_stand_for_a_run_as_for_a_look(demo: Project):
    for notes in ("metadata", "tvmake-jobs"):
        shutil.rmtree(demo.directory / ".snakemake" / notes)
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1
    done = demo.make()
    assert done.returncode == 0 and "✓" not in done.stderr, done.stderr
