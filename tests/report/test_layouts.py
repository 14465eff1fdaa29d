"""Which data layout a variant has, and why, in the summary and on the page."""

import pytest

from tests.report.conftest import gather
from tvmake.artifact import stage_json
from tvmake.errors import InputError
from tvmake.report.diff import compare
from tvmake.tune.layouts import LayoutChoice, LayoutEstimate, MeasuredKernel


def measured(layout: str, latency_ms: float) -> LayoutEstimate:
    kernel = MeasuredKernel(workload="0" * 64, name="conv2d", calls=2, flops=1e6, trials=8, latency_ms=latency_ms)
    return LayoutEstimate(layout=layout, estimate_ms=latency_ms * 4, share=0.5, kernels=[kernel])


def failed(layout: str) -> LayoutEstimate:
    return LayoutEstimate(layout=layout, estimate_ms=None, share=0, problem="none of 8 candidates worked")


def add(run, layout: str, *estimates: LayoutEstimate) -> None:
    """A variant with a layout; with estimates, one that has chosen it."""
    variant = run.add()
    run.variants[-1] = variant.model_copy(update={"layout": "auto" if estimates else layout})
    if estimates:
        choice = LayoutChoice(layout=layout, trials=8, estimates=list(estimates))
        stage_json.save(choice, run.path(variant, "layout.json"))


def test_the_row_has_the_layout_that_was_chosen(run):
    add(run, "NHWC", measured("NCHW", 0.2), measured("NHWC", 0.1))
    assert gather(run.request).rows[0].layout == "NHWC"


def test_the_row_has_the_layout_that_was_asked_for(run):
    add(run, "NCHW")
    assert gather(run.request).rows[0].layout == "NCHW"


def test_the_page_shows_the_figures_behind_a_choice(run):
    add(run, "NHWC", measured("NHWC", 0.1), failed("NCHW"))
    run.report()
    page = run.file("index.html").read_text()
    assert "about 0.4000 ms, from 50.00 % of the work: conv2d 0.1000 ms" in page
    assert "none of 8 candidates worked" in page


def test_another_layout_is_a_change_between_runs(run, another_run):
    add(run, "NCHW")
    add(another_run, "NHWC", measured("NHWC", 0.1))
    (changed,) = compare(run.report(), another_run.report()).variants
    assert "layout NCHW → NHWC" in changed.changes


def test_a_choice_that_is_missing_is_named(run):
    run.add()
    run.variants[-1] = run.variants[-1].model_copy(update={"layout": "auto"})
    with pytest.raises(InputError, match=r"layout\.json: no such file"):
        gather(run.request)
