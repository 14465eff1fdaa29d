"""The short form of benchmarks/tuning_loss.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "tuning_loss.py"


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("local", ["--rounds", "1", "--trials", "8"]),
        pytest.param("local", ["--rounds", "5", "--trials", "24"], marks=pytest.mark.soak),
        pytest.param(
            "rpc",
            ["--rounds", "4", "--trials", "24", "--kinds", "job", "runner", "server", "tracker"],
            marks=pytest.mark.soak,
        ),
        pytest.param("pure", ["--rounds", "2", "--trials", "24"], marks=pytest.mark.soak),
    ],
    ids=["one kill", "on this machine", "on RPC servers", "with latencies that can be repeated"],
)
def test_whatever_is_killed_no_trial_is_lost(what: str, options: list[str], tmp_path: Path):
    command = [sys.executable, str(SCRIPT), what, *options, "--cost-model", "random", "--seed", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
