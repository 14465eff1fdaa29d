"""The choice of precisions in the summary and on the page."""

import pytest

from tests.report.conftest import gather
from tvmake.artifact import stage_json
from tvmake.benchmark.precision_choice import ChosenLayer, Effect, MeasuredAssignment, PrecisionChoice
from tvmake.errors import InputError
from tvmake.quantize.precision import LayerAssignment

MIXED = LayerAssignment(layers=["float32", "int8", "int8"])
CANDIDATES = [
    MeasuredAssignment(
        name="mixed 1", assignment=MIXED, latency_ms=0.1, noise=1e-4, sqnr_db=40.0, is_on_front=True,
        reason="the fastest that meets the goals",
    ),
    MeasuredAssignment(
        name="float32", assignment=LayerAssignment(uniform="float32"), latency_ms=0.2, noise=1e-12, sqnr_db=120.0,
        is_on_front=True, reason="takes 2.00 × as long as the chosen candidate",
    ),
    MeasuredAssignment(
        name="int8", assignment=LayerAssignment(uniform="int8"), problem="cannot be built: no such instruction",
        reason="cannot be built: no such instruction",
    ),
]  # fmt: skip


def choice(**changes: object) -> PrecisionChoice:
    layers = [
        ChosenLayer(name="lv", operator="nn.conv2d", part=0, able=["float32", "int8"]),
        ChosenLayer(name="lv1", operator="matmul", part=1, able=["float32", "int8"]),
        ChosenLayer(name="lv2", operator="matmul", part=1, able=["float32", "int8"]),
    ]
    effects = [
        Effect(part=0, precision="int8", noise=1e-3, gain_ms=-0.01),
        Effect(part=1, precision="int8", noise=1e-5, gain_ms=0.1),
    ]
    known = {
        "assignment": MIXED, "chosen": "mixed 1", "because": "the fastest that meets the goals",
        "among": ["float32", "int8"], "layers": layers, "effects": effects, "candidates": CANDIDATES,
        "data": "dataset", "samples": 16,
    }  # fmt: skip
    return PrecisionChoice.model_validate({**known, **changes})


def add(run, made: PrecisionChoice | None) -> None:
    """A variant whose precisions were chosen."""
    variant = run.add()
    run.variants[-1] = variant.model_copy(update={"is_precision_chosen": True})
    if made is not None:
        stage_json.save(made, run.path(variant, "precision.json"))


def test_the_row_names_how_many_layers_have_which_precision(run):
    add(run, choice())
    assert gather(run.request).rows[0].layer_precisions == "2 int8, 1 float32"


def test_a_network_that_has_one_precision_as_a_whole_is_called_after_it(run):
    add(run, choice(assignment=LayerAssignment(uniform="int8")))
    assert gather(run.request).rows[0].layer_precisions == "int8 throughout"


def test_the_page_shows_the_front_and_the_reason_of_every_candidate(run):
    add(run, choice())
    run.report()
    page = run.file("index.html").read_text()
    for text in (
        "precisions of layers", "mixed 1, chosen", "chosen: the fastest that meets the goals",
        "takes 2.00 × as long as the chosen candidate", "cannot be built: no such instruction", "+0.1", "30.0 dB",
    ):  # fmt: skip
        assert text in page


def test_what_makes_the_choice_weak_evidence_is_a_warning_of_the_row(run):
    add(run, choice(warnings=["models.net has no dataset"]))
    assert "precision: models.net has no dataset" in gather(run.request).rows[0].warnings


def test_a_choice_that_is_missing_is_named(run):
    add(run, None)
    with pytest.raises(InputError, match=r"precision\.json: no such file"):
        gather(run.request)


def test_the_choice_in_one_line():
    assert choice().summary == "2 int8, 1 float32: 0.1 ms, 40.0 dB; the fastest that meets the goals"
