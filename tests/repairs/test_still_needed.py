"""The defects that tvmake works around still exist.

The reproducers of the selected tests run once, each in a fork of one process that has TVM loaded and nothing of tvmake.
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

QUICK = (
    "adreno-conv2d-accumulator", "binding-to-first-cores", "cuda-fast-math", "empty-tensors", "float-reassociation",
    "float64-norms", "floor-division-below-zero", "grid-sample-dtype", "layout-of-clips", "log-queue",
    "merged-parallel-loops", "nearest-resizes", "onnx-written-kernels", "opencl-math-names", "opencl-vector-booleans",
    "stablehlo-attributes", "take-of-negative-indices", "tflite-softmax-factor", "transposed-convolutions",
    "truncated-parameters",
)  # fmt: skip
"""Some of each layer. The others depend on the locked releases alone, and take a minute."""

REPRODUCED = [name for name, repair in REPAIRS.items() if repair.probe is not None]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """The result of each reproducer."""
    items = (item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function))
    names = [str(item.callspec.params["name"]) for item in items]
    command = [sys.executable, "upstream/check.py", "--json", *names]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=10 * HANG_S)
    return {result["name"]: result for result in map(json.loads, process.stdout.splitlines())}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name not in QUICK else []) for name in REPRODUCED]
)
def test_the_repair_is_still_needed(name: str, results: dict[str, dict[str, Any]]):
    result = results[name]
    if result["verdict"] == "skipped":
        pytest.skip(result["output"])
    assert result["verdict"] != "gone", f"{name}: this repair can be removed: {', '.join(MODULES[name])}"
    assert result["verdict"] == "needed", f"{name}: the reproducer fails:\n{result['output']}"
