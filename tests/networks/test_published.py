"""Trained models that Python packages ship compile as they come, and agree with the runtime that they were written for.

The whole list is in benchmarks/networks/published.yaml; here are the smallest of several kinds: sounds, bytes, a recurrent network.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tvmake
from tests.requirements import require
from tests.workflow.project import ROOT, Project
from tvmake.artifact.signature import Signature
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.run import open_reference
from tvmake.validate.samples import random_samples

LOCK = ROOT / "envs" / "published.lock"

DIRECTORY = Path(sys.prefix) / "published"

FILES = (
    "faster_whisper/assets/silero_vad_v6.onnx",
    "magika/models/standard_v3_3/model.onnx",
    "onnx_asr/preprocessors/data/kaldi.onnx",
    "basic_pitch/saved_models/icassp_2022/nmp.tflite",
)

MOST_ERROR = 1e-4
"""Of a value, as a part of the largest."""

ENTRIES: dict[str, dict[str, Any]] = {
    entry["file"]: entry for entry in yaml.safe_load((ROOT / "benchmarks/networks/published.yaml").read_text())
}


@pytest.mark.parametrize("name", FILES)
def test_a_published_model_compiles_as_it_comes_and_agrees_with_its_own_runtime(name: str, tmp_path: Path):
    fetched = DIRECTORY / "published.lock"
    command = f"envs/published.sh {sys.executable} {DIRECTORY}"
    require(fetched.is_file() and fetched.read_bytes() == LOCK.read_bytes(), f"published models: {command}")
    file = DIRECTORY / name
    project = Project(tmp_path)
    done = project.run("tvmake", "compile", str(file), "-o", "package.tar")
    assert done.returncode == 0, done.stderr
    package = tvmake.open(tmp_path / "package.tar", threads=1)
    signature = with_ranges(package.manifest.signature, ENTRIES[name].get("inputs", {}))
    runtime = open_reference(str(file), ImportOptions(source=str(file)), signature)
    for size in ENTRIES[name].get("sizes", [{}]):
        assert size.keys() <= signature.dynamic_dimensions.keys()
        (inputs,) = random_samples(signature, 1, dims=size)
        expected, outputs = runtime.run(inputs), package.run(inputs)
        for output, value in expected.items():
            tolerance = MOST_ERROR * float(np.abs(value).max())
            np.testing.assert_allclose(outputs[output], value, rtol=0, atol=tolerance, err_msg=f"{output}, {size}")


def with_ranges(signature: Signature, inputs: dict[str, dict[str, Any]]) -> Signature:
    specs = (spec.model_copy(update={"range": inputs.get(spec.name, {}).get("range")}) for spec in signature.inputs)
    return signature.model_copy(update={"inputs": tuple(specs)})
