"""A package's contents other than the built files."""

from typing import Any

import pytest

from tvmake.config.reading.load import check
from tvmake.config.requests.building import ExportRequest
from tvmake.plan.plan import Plan
from tvmake.stages.package.contents import export_request

DATASET = {"path": "images.npz"}


def request(precision: dict[str, Any], **model: Any) -> ExportRequest:
    config = {
        "models": {"net": {"source": "net.onnx", **model}},
        "precisions": {"one": precision},
        "targets": {"cpu": {"kind": "llvm"}},
    }
    plan = Plan(check(config, {}))
    return export_request(plan.context(plan.variants[0]))


@pytest.mark.parametrize("precision", [{"base": "int8"}, {"base": "auto"}])
def test_ranges_of_a_dataset_are_not_tested_by_made_up_inputs(precision):
    assert "do not fit made-up inputs" in request(precision, dataset=DATASET).why_not
    assert request(precision).goals


def test_other_precisions_are_tested_by_made_up_inputs_whatever_the_dataset():
    assert request({"base": "auto", "among": ["float32", "float16"]}, dataset=DATASET).goals
    assert request({"base": "float32"}, dataset=DATASET).goals["sqnr_db"] == 60


def test_a_quantised_source_is_tested_by_goals_that_allow_for_its_steps():
    made = request({"base": "float32"})
    assert made.goals_of(True) == {"sqnr_db": 20.0, "equal": 0.95, "equal_within_step": 0.8}
    assert made.goals_of(False) == made.goals
