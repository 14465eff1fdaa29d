"""Single operators between two convolutions in textures: benchmarks/texture_operators.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.requirements import need

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "texture_operators.py"

CAUSES = (
    "prelu",
    "group norm",
    "mean over channels",
    "chunk",
    "attention",
)
"""Ways in which an operator can be unfit for blocks of channels; the longest form has all operators."""


def assert_right(*options: str) -> None:
    need("PoCL")
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_what_does_not_know_blocks_of_channels_is_right_all_the_same():
    assert_right("--jobs", "1", "--only", *CAUSES)


@pytest.mark.soak
def test_every_operator_is_right():
    assert_right()
