"""The digits model, compiled by TVM, against ONNX Runtime on its held-out images."""

from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.unoptimised import UNOPTIMISED
from tvmake.config.dataset import DatasetConfig
from tvmake.config.validation import PrecisionGoals, goals_for
from tvmake.frontend.onnx import importer as onnx_frontend
from tvmake.frontend.options import ImportOptions
from tvmake.validate.dataset import load_dataset
from tvmake.validate.numerics import Comparison, NumericsReport
from tvmake.validate.reference.run import open_reference, reference_outputs

from tvm import relax  # isort: skip

RESOURCES = Path(__file__).parents[2] / "resources"
OPTIONS = ImportOptions(source=str(RESOURCES / "digits.onnx"))


@pytest.fixture(scope="module")
def imported():
    return onnx_frontend.read(Path(OPTIONS.source), OPTIONS)


@pytest.fixture(scope="module")
def machine(imported):
    return relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())


@pytest.fixture(scope="module")
def answered(imported):
    """(sample, reference outputs) of every held-out image."""
    config = DatasetConfig.model_validate({"path": str(RESOURCES / "digits-test.npz"), "preprocess": {"scale": 0.0625}})
    samples = list(load_dataset(config, imported.signature))
    model = open_reference(OPTIONS.source, OPTIONS, imported.signature)
    reference = reference_outputs(model, imported.signature, (sample.inputs for sample in samples))
    return list(zip(samples, reference, strict=True))


def judged(machine, params, answered) -> NumericsReport:
    def run(image: np.ndarray) -> dict[str, np.ndarray]:
        return {"logits": machine["main"](tvm.runtime.tensor(image), *params).numpy()}

    comparison = Comparison(goals_for("float32", PrecisionGoals(top1_drop=0.005, top1=0.97, rtol=1e-4, atol=1e-5)))
    for sample, reference in answered:
        comparison.add(reference, run(sample.inputs["image"]), sample.labels)
    image = answered[0][0].inputs["image"]
    comparison.add_repeat(run(image), run(image))
    return comparison.report()


def tensors(params) -> list:
    return [tvm.runtime.tensor(param.numpy() if hasattr(param, "numpy") else param) for param in params.values()]


def test_tvms_digits_meet_every_goal_without_a_warning(imported, machine, answered):
    report = judged(machine, tensors(imported.params), answered)
    assert report.missed == []
    assert report.warnings == []
    assert (report.samples, report.repeatable) == (360, True)
    assert report.classification.top1 == report.classification.reference_top1 >= 0.97
    assert report.outputs[0].worst_sqnr_db > 100


def test_a_weight_off_by_a_tenth_misses_the_goals(imported, machine, answered):
    params = {
        name: np.array(value.numpy() if hasattr(value, "numpy") else value) for name, value in imported.params.items()
    }
    largest = max(params, key=lambda name: params[name].size)
    params[largest].flat[np.abs(params[largest]).argmax()] *= 1.1
    missed = {goal.goal for goal in judged(machine, tensors(params), answered).missed}
    assert {"allclose", "max_abs_rms", "sqnr_db"} <= missed
