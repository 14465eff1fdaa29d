"""The short form of benchmarks/tuning_loss.py.

Without it, one killed run is in tests/workflow/test_tuning.py, killed searches in search/test_search.py, and killed
processes of a measurer in measure/test_local.py and measure/test_remote.py.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "tuning_loss.py"

RPC = ("--rounds", "4", "--trials", "24", "--kinds", "job", "runner", "server", "tracker")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("local", ("--rounds", "1", "--trials", "8")),
        ("local", ("--rounds", "5", "--trials", "24")),
        ("rpc", RPC),
        ("pure", ("--rounds", "2", "--trials", "24")),
    ],
    ids=["one kill", "on this machine", "on RPC servers", "with latencies that can be repeated"],
)
def test_no_trial_is_lost_whichever_process_is_killed(kind: str, options: tuple[str, ...], tmp_path: Path):
    command = [sys.executable, str(SCRIPT), kind, *options, "--cost-model", "random", "--seed", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
