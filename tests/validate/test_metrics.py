"""Users' metrics: figures of their own over all samples, for the package and for its source model."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from resources import metrics

from tvmake.config.validation import Goals, Metric
from tvmake.errors import InputError
from tvmake.validate.metrics import MetricSample, MetricSamples, measure, missed_metrics
from tvmake.validate.numerics import Comparison


def sample(outputs=None, labels=None, inputs=None, truth=None) -> MetricSample:
    given = [{name: np.asarray(value) for name, value in (part or {}).items()} for part in (inputs, outputs, truth)]
    return MetricSample(given[0], given[1], None if labels is None else np.asarray(labels), given[2])


def samples(*each: MetricSample) -> MetricSamples:
    return MetricSamples(lambda: iter(each), len(each))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a module of the user's; gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        name = f"metric_of_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


# --- how they are computed and judged ----------------------------------------------------------------------------------


def test_a_metric_sees_all_samples_of_the_package_and_of_the_source_model(mine):
    name = mine("def total(samples, output): return sum(s.outputs[output].sum() for s in samples) / len(samples)\n")
    package, reference = (samples(*(sample({"y": [value]}) for value in values)) for values in ((1, 3), (2, 4)))
    metric = Metric(use=f"{name}:total", arguments={"output": "y"})
    figures = measure({"total": metric}, package, reference)
    assert (figures["total"].value, figures["total"].reference) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("bounds", "missed"),
    [
        ({}, []),
        ({"at_least": 0.9}, []),
        ({"at_least": 0.91}, ["score: is 0.9, too low"]),
        ({"at_most": 0.89}, ["score: is 0.9, too high"]),
        ({"within": 0.1}, []),
        ({"within": 0.01}, ["score: is 0.9, the source model's 0.95: 0.05 apart"]),
    ],
)
def test_a_bound_that_is_not_met_is_a_missed_goal(mine, bounds, missed):
    name = mine("def score(samples): return next(iter(samples)).outputs['y'][0]\n")
    metrics = {"score": Metric(use=f"{name}:score", **bounds)}
    figures = measure(metrics, samples(sample({"y": [0.9]})), samples(sample({"y": [0.95]})))
    assert [f"{goal.goal}: {goal.reason}" for goal in missed_metrics(metrics, figures)] == missed


@pytest.mark.parametrize("returned", ["float('nan')", "10**400"])
def test_a_figure_that_is_not_a_number_misses_its_bounds(mine, returned):
    name = mine(f"def score(samples): return {returned}\n")
    metrics = {"score": Metric(use=f"{name}:score", at_least=0, within=1)}
    figures = measure(metrics, samples(sample()), samples(sample()))
    assert figures["score"].value is None
    assert [goal.reason for goal in missed_metrics(metrics, figures)] == [
        "is not a finite number",
        "is not a finite number on both sides",
    ]


def test_a_missed_metric_fails_the_comparison_and_is_in_its_report(mine):
    name = mine("def score(samples): return 0.5\n")
    metrics = {"score": Metric(use=f"{name}:score", at_least=0.6)}
    comparison = Comparison(Goals(metrics=metrics))
    comparison.add({"y": np.ones(3)}, {"y": np.ones(3)})
    comparison.add_metrics(measure(metrics, samples(sample()), samples(sample())))
    report = comparison.report()
    assert not report.passed
    assert report.metrics["score"].value == 0.5
    assert [(goal.goal, goal.bound, goal.value) for goal in report.missed] == [("score", 0.6, 0.5)]


@pytest.mark.parametrize(
    ("text", "use", "problem"),
    [
        ("def f(samples): return 1\n", "g", "has no function 'g'"),
        ("def f(samples): return 1 / 0\n", "f", r"failed: ZeroDivisionError: division by zero \(metric_of_.*\.py:1\)"),
        ("def f(samples): return 'good'\n", "f", r"returned a str \(metric_of_.*\.py:1\), not a number"),
        ("def f(samples): return '0.5'\n", "f", r"returned a str \(metric_of_.*\.py:1\), not a number"),
        ("class N:\n  def __float__(self): raise KeyError\ndef f(samples): return N()\n", "f", "returned a N "),
        ("class E(Exception):\n  def __str__(self): 1 / 0\ndef f(samples): raise E\n", "f", r"failed: E \(metric_of_"),
        ("def f(): return 1\n", "f", "failed: TypeError: .*takes 0 positional arguments"),
    ],
)
def test_a_metric_that_cannot_be_computed_is_named_with_the_line(mine, text, use, problem):
    name = mine(text)
    with pytest.raises(InputError, match=problem) as caught:
        measure({"m": Metric(use=f"{name}:{use}")}, samples(sample()), samples(sample()))
    assert caught.value.where == f"metric {name}:{use}"
    assert ("takes the samples" if use == "f" else "it defines") in (caught.value.remedy or "")


def test_bounds_that_nothing_can_meet_are_refused():
    with pytest.raises(ValidationError, match="at_least 2 is above at_most 1"):
        Metric(use="a:b", at_least=2, at_most=1)


# --- the examples ------------------------------------------------------------------------------------------------------


def test_f1_of_classes():
    scores = np.eye(3)[[0, 1, 1, 2]]
    assert metrics.f1(samples(sample({"logits": scores}, [0, 1, 1, 2]))) == 1.0
    # Class 0: precision 1, recall 1/2; class 1: precision 1/2, recall 1.
    assert metrics.f1(samples(sample({"logits": np.eye(2)[[0, 1, 1]]}, [0, 0, 1]))) == pytest.approx(2 / 3)


def test_mean_iou_of_masks_leaves_ignored_pixels_out():
    masks = np.array([[[0, 0], [1, 255]]])
    scores = np.zeros((1, 2, 2, 2))
    scores[0, 0] = 1  # all pixels have class 0
    # Class 0: 2 of 3 pixels; class 1: none of 1.
    assert metrics.mean_iou(samples(sample({"logits": scores}, truth={"masks": masks}))) == pytest.approx((2 / 3) / 2)


def test_perplexity_of_a_model_that_knows_nothing_is_its_vocabulary():
    tokens = np.array([[1, 0, 3, 2]])
    know_nothing = samples(sample({"logits": np.zeros((1, 4, 4))}, inputs={"input_ids": tokens}))
    assert metrics.perplexity(know_nothing) == pytest.approx(4)
    knows = np.full((1, 4, 4), -30.0)
    knows[0, [0, 1, 2], [0, 3, 2]] = 30.0
    assert metrics.perplexity(samples(sample({"logits": knows}, inputs={"input_ids": tokens}))) == pytest.approx(1)


def detected(*found, objects):
    """Detections (score, class, box) of one image, and its objects (class, box)."""
    outputs = {
        "scores": [[score for score, _, _ in found]],
        "classes": [[kind for _, kind, _ in found]],
        "boxes": [[box for _, _, box in found]],
    }
    return samples(sample(outputs, truth={"objects": [[[kind, *box] for kind, box in objects]]}))


LEFT, RIGHT, NEAR_LEFT = (0, 0, 10, 10), (20, 0, 30, 10), (1, 0, 11, 10)


def test_mean_average_precision_of_boxes():
    assert metrics.mean_average_precision(detected((0.9, 0, NEAR_LEFT), objects=[(0, LEFT)])) == 1.0
    # One object of two is found.
    assert metrics.mean_average_precision(detected((0.9, 0, LEFT), objects=[(0, LEFT), (0, RIGHT)])) == 0.5
    # A better-ranked detection of nothing halves the precision; the second one of an object is wrong.
    wrong_first = detected((0.9, 0, RIGHT), (0.8, 0, LEFT), (0.7, 0, NEAR_LEFT), objects=[(0, LEFT)])
    assert metrics.mean_average_precision(wrong_first) == 0.5
    # Another class's box is none of this one's, and one that nothing finds counts.
    assert metrics.mean_average_precision(detected((0.9, 1, LEFT), objects=[(0, LEFT), (-1, RIGHT)])) == 0.0
