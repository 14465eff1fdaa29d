"""The guide to other source formats: what it shows of jax and Relax is made by the config that stands beside it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.patience import HANG_S
from tests.requirements import need_module
from tests.workflow.project import ROOT, SCRIPTS
from tvmake.artifact.signature import Signature

GUIDE = (ROOT / "docs/guides/import-other.md").read_text(encoding="utf-8")


def blocks(heading: str) -> tuple[str, str]:
    """The Python and the YAML of a section."""
    section = GUIDE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = [re.search(rf"```{language}\n(.*?)```", section, re.DOTALL) for language in ("python", "yaml")]
    assert all(found)
    return found[0][1], found[1][1]


@pytest.mark.parametrize(
    ("heading", "file", "inputs", "outputs"),
    [
        ("Import a StableHLO program from jax", "export.py", {"image": (1, 8, 8)}, {"logits": (1, 10)}),
        ("Give a Relax module", "relax_networks.py", {"x": (1, 64)}, {"output": (1, 4)}),
    ],
    ids=["StableHLO", "Relax"],
)
def test_what_the_guide_shows_is_imported(tmp_path: Path, heading: str, file: str, inputs: dict, outputs: dict):
    code, config = blocks(heading)
    (tmp_path / file).write_text(code)
    if "import jax" in code:
        need_module("jax", "pip install 'tvmake[stablehlo]'")
        subprocess.run([sys.executable, file], cwd=tmp_path, check=True, timeout=HANG_S)
    [model] = yaml.safe_load(config)["models"].values()
    command = [
        SCRIPTS / "tvmake",
        "step",
        "import",
        "--options",
        json.dumps(model),
    ]
    written = {"module": "model.json", "params": "model.params", "signature": "signature.json", "source": "source.json"}
    for option, target in written.items():
        command += [f"--{option}", target]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    signature = Signature.model_validate_json((tmp_path / "signature.json").read_text())
    assert {spec.name: spec.shape for spec in signature.inputs} == inputs
    assert {spec.name: spec.shape for spec in signature.outputs} == outputs
