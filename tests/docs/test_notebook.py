"""The notebook runs as it stands, and its stored outputs are of the kinds that it gives."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANG_S
from tests.process import shared
from tests.workflow.project import ROOT
from tvmake.process.forkserver.client import DIRECTORY

NOTEBOOK = ROOT / "docs/guides/python.ipynb"


def kinds(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """Of each code cell's outputs: their types, and the forms of a value."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[[output["output_type"], *output.get("data", ())] for output in cell["outputs"]] for cell in cells]


def test_every_cell_has_run_in_order():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert "/tmp" not in NOTEBOOK.read_text()


@pytest.mark.long
def test_the_cells_run_and_give_what_is_stored(tmp_path: Path):
    script = ROOT / "docs/scripts/notebook.py"
    environment = {**os.environ, "TMPDIR": str(tmp_path), DIRECTORY: shared.directory()}
    command = [sys.executable, str(script), str(tmp_path / "run.ipynb")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    stored, found = (json.loads(file.read_text()) for file in (NOTEBOOK, tmp_path / "run.ipynb"))
    assert kinds(found) == kinds(stored)
