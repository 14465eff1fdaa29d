"""Damaged records of Snakemake cost nothing; damaged records of jobs cost only these jobs."""

import base64
import shlex
import shutil
from pathlib import Path

import pytest

from tests.workflow.project import Project
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import record_file

LATENCY = "results/digits/float32/cpu/latency.json"


def test_damaged_records_of_snakemake_are_removed_and_a_change_is_seen(demo: Project):
    records = [path for path in (demo.directory / ".snakemake" / "metadata").rglob("*") if path.is_file()]
    for number, path in enumerate(sorted(records)):
        content = bytearray(path.read_bytes())
        content[number * 7 % 40] ^= 0x80
        path.write_bytes(bytes(content))
    demo.edit("benchmark.repeat", 4)
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert f"note: removed {len(records)} records of Snakemake's that cannot be read" in done.stderr
    assert len(demo.result(LATENCY)["report"]["samples_ms"]) == 4
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1


def test_without_the_records_of_jobs_everything_is_rebuilt(demo: Project):
    shutil.rmtree(demo.directory / ".snakemake" / "tvmake-jobs")
    planned = demo.planned_rules()
    assert {"import_model", "build", "report"} <= planned.keys() or {"import", "build", "report"} <= planned.keys()
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert "note: rebuilding " in done.stderr
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1


@pytest.mark.parametrize(
    "note", [record_file(LATENCY), SNAKEMAKE_STATE / "metadata" / base64.urlsafe_b64encode(LATENCY.encode()).decode()]
)
@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_directory_or_link_instead_of_a_record_is_refused_and_kept(
    demo: Project, tmp_path: Path, note: Path, kind: str
):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    path = demo.directory / note
    path.unlink()
    if kind == "link":
        path.symlink_to(mine)
    else:
        path.mkdir()
        (path / "link").symlink_to(mine)
    demo.edit("benchmark.repeat", 4)
    done = demo.make()
    assert done.returncode == 3, done.stderr
    assert f"{note}: is a {kind}" in done.stderr
    assert path.is_symlink() if kind == "link" else (path / "link").is_symlink()
    command = done.stderr[done.stderr.index("or `") :].partition("`")[2].partition("`")[0]
    assert demo.run(*shlex.split(command)).returncode == 0
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert len(demo.result(LATENCY)["report"]["samples_ms"]) == 4
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1
    assert (mine / "file").exists()


@pytest.mark.parametrize("lost", [["metadata", "tvmake-jobs"], ["."]], ids=["records", "everything"])
def test_results_without_any_record_are_rebuilt_and_a_dry_run_shows_it(demo: Project, lost: list[str]):
    """Results copied without .snakemake may be of any config: those of another one passed for up to date."""
    for notes in lost:
        shutil.rmtree(demo.directory / ".snakemake" / notes)
    demo.edit("build.opt_level", 1)
    assert {"import", "build", "report"} <= set(demo.planned_rules())
    done = demo.make()
    assert done.returncode == 0, done.stderr
    assert "note: rebuilding " in done.stderr and "such as results/digits/" in done.stderr
    assert demo.result("results/digits/float32/cpu/mod.json")["build"]["build"] == {"opt_level": 1}
    assert demo.make("--dry-run").stderr.count("nothing to do") == 1
