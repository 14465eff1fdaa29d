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


def test_damaged_records_of_snakemake_are_removed_and_a_change_is_seen(single: Project):
    records = [path for path in (single.directory / ".snakemake" / "metadata").rglob("*") if path.is_file()]
    for number, path in enumerate(sorted(records)):
        content = bytearray(path.read_bytes())
        content[number * 7 % 40] ^= 0x80
        path.write_bytes(bytes(content))
    single.edit("benchmark.repeat", 4)
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert f"note: removed {len(records)} records of Snakemake's that cannot be read" in done.stderr
    assert len(single.result(LATENCY)["report"]["samples_ms"]) == 4
    assert single.make("--dry-run").stderr.count("nothing to do") == 1


@pytest.mark.soak
def test_without_the_records_of_jobs_everything_is_rebuilt(single: Project):
    shutil.rmtree(single.directory / ".snakemake" / "tvmake-jobs")
    assert {"import", "build", "report"} <= single.planned_rules().keys()
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert "note: rebuilding " in done.stderr
    assert single.make("--dry-run").stderr.count("nothing to do") == 1


RECORD, METADATA = (
    record_file(LATENCY),
    SNAKEMAKE_STATE / "metadata" / base64.urlsafe_b64encode(LATENCY.encode()).decode(),
)
"""The records of one job: tvmake's and Snakemake's."""


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        (RECORD, "link"),
        (METADATA, "directory"),
        pytest.param(RECORD, "directory", marks=pytest.mark.soak),
        pytest.param(METADATA, "link", marks=pytest.mark.soak),
    ],
)
def test_a_directory_or_link_instead_of_a_record_is_refused_and_kept(
    single: Project, tmp_path: Path, note: Path, kind: str
):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    path = single.directory / note
    path.unlink()
    if kind == "link":
        path.symlink_to(mine)
    else:
        path.mkdir()
        (path / "link").symlink_to(mine)
    single.edit("benchmark.repeat", 4)
    done = single.make()
    assert done.returncode == 3, done.stderr
    assert f"{note}: is a {kind}" in done.stderr
    assert path.is_symlink() if kind == "link" else (path / "link").is_symlink()
    command = done.stderr[done.stderr.index("or `") :].partition("`")[2].partition("`")[0]
    assert single.run(*shlex.split(command)).returncode == 0
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert len(single.result(LATENCY)["report"]["samples_ms"]) == 4
    assert single.make("--dry-run").stderr.count("nothing to do") == 1
    assert (mine / "file").exists()


@pytest.mark.parametrize(
    "lost",
    [pytest.param(["metadata", "tvmake-jobs"], marks=pytest.mark.soak), ["."]],
    ids=["records", "everything"],
)
def test_results_without_any_record_are_rebuilt_and_a_dry_run_shows_it(single: Project, lost: list[str]):
    """Results copied without .snakemake may be of any config: those of another one passed for up to date."""
    for notes in lost:
        shutil.rmtree(single.directory / ".snakemake" / notes)
    single.edit("build.opt_level", 1)
    assert {"import", "build", "report"} <= set(single.planned_rules())
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert "note: rebuilding " in done.stderr and "such as results/digits/" in done.stderr
    assert single.result("results/digits/float32/cpu/mod.json")["build"]["build"] == {"opt_level": 1}
    assert single.make("--dry-run").stderr.count("nothing to do") == 1
