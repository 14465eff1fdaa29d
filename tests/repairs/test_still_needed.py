"""The defects that tvmake works around still exist.

All reproducers run once, each in a fork of one process that has TVM loaded and nothing of tvmake.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.patience import HANG_S
from tests.workflow.project import ROOT
from tvmake.repairs.registry import REPAIRS, modules_by_repair

MODULES = modules_by_repair()


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """The result of each reproducer."""
    command = [sys.executable, "upstream/check.py", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=10 * HANG_S)
    return {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", [name for name, repair in REPAIRS.items() if repair.probe is not None])
def test_the_repair_is_still_needed(name: str, results: dict[str, dict[str, Any]]):
    result = results[name]
    if result["verdict"] == "skipped":
        pytest.skip(result["output"])
    assert result["verdict"] != "gone", f"{name}: this repair can be removed: {', '.join(MODULES[name])}"
    assert result["verdict"] == "needed", f"{name}: the reproducer fails:\n{result['output']}"
