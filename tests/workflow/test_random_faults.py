"""The short form of benchmarks/random_faults.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import require

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "random_faults.py"


@pytest.mark.slow
def test_random_faults_leave_no_wrong_artifact_and_lose_no_record(tmp_path: Path):
    require(os.geteuid() == 0, "the right to mount a tmpfs (root)")
    command = [sys.executable, str(SCRIPT), "--rounds", "3", "--seed", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
