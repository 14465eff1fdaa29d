"""benchmarks/random_faults.py: whether its checks detect violations, and in the soak tests some of its rounds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.requirements import require
from tests.workflow.project import Project

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.soak
@pytest.mark.parametrize("rounds", [3])
def test_random_faults_leave_no_wrong_artifact_and_lose_no_record(tmp_path: Path, rounds: int):
    require(os.geteuid() == 0, "root, to mount file systems: run the tests as root")
    faults = ["full-disk", "clock-skew", "late-files", "second-elsewhere", "kill-job", "kill-everything", "cut-short"]
    command = [
        sys.executable,
        str(BENCHMARKS / "random_faults.py"),
        "--rounds",
        str(rounds),
        "--seed",
        "3",
        "--faults",
        *faults,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{rounds} rounds from seed 3, 0 with something wrong" in done.stdout


def test_the_checks_see_lost_records_and_wrong_missing_and_left_files(tuned: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from faults.checks import look
    from faults.project import TUNED, FaultyProject
    from killing import record_lines

    project = FaultyProject(tuned.directory.parent)
    project.edit("cache", "../cache")
    wanted, seen = project.fixed(), record_lines(project.home / "records")
    assert look(project, seen, wanted) == []

    (records, *_) = sorted(project.home.glob("records/**/records.jsonl"))
    records.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[1:]))
    manifest = project.directory / TUNED / "mod.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"tvmake", b"tvmaKe", 1))
    (project.directory / TUNED / "package.tar").unlink()
    (project.results / ".tvmake-left").touch()
    found = look(project, seen, wanted)
    assert {f"{TUNED}/mod.json is wrong", f"{TUNED}/package.tar is missing", "1 records are lost"} <= set(found)
    assert any(problem.startswith("something is left to do") for problem in found)
    assert f"left behind: {project.results / '.tvmake-left'}" in found
