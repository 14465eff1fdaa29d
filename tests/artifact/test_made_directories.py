"""Directories that lack a file go, with what was made beside them."""

from pathlib import Path

import pytest

from tvmake.artifact.known_digests import KnownDigests
from tvmake.artifact.made_directories import note, remove_incomplete


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    Path("workloads").mkdir()
    for name in ("a.json", "b.json"):
        (Path("workloads") / name).write_text(name)
    Path("tasks.json").write_text("{}")
    outputs = [Path("tasks.json"), Path("workloads")]
    note(outputs)
    return outputs


def test_what_is_whole_stays(made: list[Path]):
    (Path("workloads") / ".snakemake_timestamp").touch()
    assert remove_incomplete() == []
    assert all(path.exists() for path in made)


@pytest.mark.parametrize("gone", ["workloads/a.json", "workloads"])
def test_without_a_file_all_that_its_job_made_goes(made: list[Path], gone: str):
    Path(gone).rename("elsewhere")
    assert remove_incomplete() == ["workloads"]
    assert not any(path.exists() for path in made)
    assert remove_incomplete() == []


def test_the_digest_of_a_directory_is_that_of_its_files(made: list[Path], tmp_path: Path):
    known = KnownDigests(tmp_path / "digests.json")
    before = known.digest(Path("workloads"))
    (Path("workloads") / ".snakemake_timestamp").touch()
    assert known.digest(Path("workloads")) == before
    (Path("workloads") / "a.json").write_text("other")
    assert known.digest(Path("workloads")) != before
