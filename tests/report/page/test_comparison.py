"""What the page says in words."""

from tests.report.conftest import STEADY, gather
from tvmake.config.validation import Goals
from tvmake.report.page.comparison import Comparison, comparisons, factor_words, headlines
from tvmake.report.results import read_results
from tvmake.report.selection import select
from tvmake.stages.results.gathering import path_in


def compared(run, runs=()):
    results = read_results(run.request, path_in(run.request.results))
    chosen = select(gather(run.request).rows, results).chosen
    summary = gather(run.request, chosen)
    return summary, comparisons(summary, results, runs)


def scaled(factor):
    return [factor * value for value in STEADY]


def test_a_tuned_variant_is_compared_with_the_untuned_one_for_the_same_target_and_device(run):
    run.add(target="cpu", samples_ms=scaled(17))
    run.add(target="elsewhere", device="board", samples_ms=scaled(99))
    run.add(target="tuned", tuned=4)
    _, found = compared(run)
    speedup = found["digits/float32/tuned"].untuned
    assert speedup.than.target == "cpu"
    assert abs(speedup.factor - 17) < 0.01
    assert speedup.low <= speedup.factor <= speedup.high
    assert speedup.words() == "17 times as fast as untuned (cpu: 17.00 ms)"
    assert found["digits/float32/cpu"].untuned is None


def test_measurements_on_different_processors_are_not_compared(run):
    run.add(target="cpu", soc="one")
    run.add(target="tuned", tuned=4, soc="another")
    assert compared(run)[1]["digits/float32/tuned"].untuned is None


def test_what_noise_explains_is_no_difference(run):
    run.add(target="cpu", samples_ms=[1.0, 2.0, 1.1, 1.9, 1.5])
    run.add(target="tuned", tuned=4, samples_ms=[1.1, 1.9, 1.2, 2.0, 1.4])
    assert compared(run)[1]["digits/float32/tuned"].untuned.words() == "no clear difference to untuned (cpu: 1.500 ms)"


def test_the_headline_names_the_fastest_that_meets_its_goals(run):
    run.add(samples_ms=scaled(3))
    run.add(precision="float16", error=0.5, goals=Goals(sqnr_db=40.0))
    summary, found = compared(run)
    assert headlines(summary, found) == [("digits", "the fastest that meets its goals is float32 on cpu, 3.000 ms")]


def test_the_headline_says_when_none_does(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0))
    run.add(precision="float16", error=0.5, goals=Goals(sqnr_db=40.0))
    summary, found = compared(run)
    assert headlines(summary, found)[0][1].endswith("; no variant meets its goals")


def test_the_run_before_is_the_last_one_with_another_measurement(run, another_run):
    another_run.add(samples_ms=scaled(2))
    run.add()
    before = gather(another_run.request)
    summary, _ = compared(run)
    _, found = compared(run, [before, summary])
    assert found["digits/float32/cpu"].change == "-50.0 %, faster than in the previous run"


def test_factors_in_words():
    assert factor_words(17.04) == "17 times as fast"
    assert factor_words(0.4) == "2.5 times as slow"
    assert factor_words(1234.5) == "1234 times as fast"


def test_the_original_framework_is_compared_with_in_words(run):
    run.add()
    summary, _ = compared(run)
    (row,) = summary.rows
    beside = row.model_copy(update={"baseline": "onnxruntime", "baseline_ms": 2.0, "speedup": 0.5})
    assert Comparison(beside).words == ["2 times as slow as onnxruntime (2.000 ms)"]
