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
"""Reasons why an operator does not suit blocks of channels; the longest form has all operators."""


def assert_right(*options: str) -> None:
    need("PoCL")
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_operators_that_do_not_know_blocks_of_channels_are_right():
    assert_right("--jobs", "1", "--only", *CAUSES)


@pytest.mark.soak
def test_every_operator_is_right():
    assert_right()
