"""The reference runs the imported network, not another one of the same name."""

import shutil
import sys
import textwrap
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from tests.workflow.project import ROOT
from tvmake.artifact import stage_json
from tvmake.artifact.source import SourceRecord
from tvmake.config.requests.referencing import ReferenceRequest, SelfTestRequest
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.reference import reference
from tvmake.stages.package.self_test import self_test

SOURCE = """
import numpy as np
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.register_buffer("factor", factor)

    def forward(self, x):
        return x * self.factor


def seeded():
    return Scale(torch.randn(3))


def unseeded():
    return Scale(torch.from_numpy(np.random.default_rng().standard_normal(3)).float())
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return [tmp_path / name for name in ("model.json", "model.params", "signature.json", "source.json")]


def run(function: str, files: list[Path]) -> Path:
    module = f"weights_{function}"  # a unique name, so that no other test has imported it
    files[0].with_name(f"{module}.py").write_text(textwrap.dedent(SOURCE))
    options = ImportOptions(source=f"{module}:{function}", trusted=True, inputs={"x": {"shape": [2, 3]}})
    import_model(options, *files)
    made = files[0].with_name("reference.npz")
    reference(files[2], files[3], ReferenceRequest(model=options, samples=1), made)
    return made


def test_a_factory_that_draws_by_its_seed_is_run(files):
    assert run("seeded", files).is_file()
    assert len(str(stage_json.load(SourceRecord, files[3]).notes["weights"])) == 64


def test_a_model_that_has_changed_since_its_import_is_not_run(files: list[Path]):
    source = files[0].with_name("digits.onnx")
    shutil.copy(ROOT / "resources" / "digits.onnx", source)
    options = ImportOptions(source=source.name)
    import_model(options, *files)
    model = onnx.load(source)
    weights = model.graph.initializer[0]
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * 2, weights.name))
    onnx.save(model, source)
    asked = {"reference": ReferenceRequest(model=options, samples=1), "self_test": SelfTestRequest(model=options)}
    for stage, request in asked.items():
        made = files[0].with_name(f"{stage}.npz")
        with pytest.raises(InputError, match=r"digits\.onnx: has changed since it was imported"):
            {"reference": reference, "self_test": self_test}[stage](files[2], files[3], request, made)
        assert not made.exists()


def test_a_factory_that_draws_other_weights_each_time_is_refused(files):
    with pytest.raises(InputError, match="other weights each time") as refused:
        run("unseeded", files)
    assert "seed" in refused.value.remedy
    assert not files[0].with_name("reference.npz").exists()
