"""What the page says in words."""

from tests.report.conftest import STEADY, gather
from tvmake.config.validation import Goals
from tvmake.report.page.comparison import Comparison, comparisons, headlines, speedup_words
from tvmake.report.results import read_results
from tvmake.report.selection import select
from tvmake.stages.results.gathering import path_in


def compared(run, runs=()):
    results = read_results(run.request, path_in(run.request.results))
    chosen = select(gather(run.request).rows, results).chosen
    summary = gather(run.request, chosen)
    return summary, comparisons(summary, results, runs)


def headlines_of(run):
    summary, found = compared(run)
    return headlines(summary, read_results(run.request, path_in(run.request.results)), found)


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
    assert headlines_of(run) == [("digits", "the fastest that meets its goals is float32 on cpu, 3.000 ms")]


def test_the_headline_says_when_none_does(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0))
    run.add(precision="float16", error=0.5, goals=Goals(sqnr_db=40.0))
    assert headlines_of(run)[0][1].endswith("; no variant meets its goals")


def test_the_run_before_is_the_last_one_with_another_measurement(run, another_run):
    another_run.add(samples_ms=scaled(2))
    run.add()
    before = gather(another_run.request)
    summary, _ = compared(run)
    _, found = compared(run, [before, summary])
    assert found["digits/float32/cpu"].change == "-50.0 %, faster than in the previous run"


def test_a_variant_as_fast_as_another_is_not_called_the_fastest(run):
    run.add(samples_ms=scaled(1.02))
    run.add(precision="float16", samples_ms=scaled(1.0))
    run.add(precision="int8", samples_ms=scaled(3.0))
    words = "the best is float32 on cpu, 1.020 ms: as fast as float16 on cpu (1.000 ms) within 5 %, and before it in the config"
    assert headlines_of(run) == [("digits", words)]


def test_noise_leaves_the_choice_to_the_config_and_the_headline_says_so(run):
    run.add(samples_ms=[1.0, 2.0, 1.1, 1.9, 1.5])
    run.add(precision="float16", samples_ms=[1.1, 2.1, 1.2, 2.0, 1.6])
    run.add(precision="int8", samples_ms=[1.1, 2.1, 1.2, 2.0, 1.7])
    words = "the best is float32 on cpu, 1.500 ms: as fast as 2 others within noise, and before them in the config"
    assert headlines_of(run) == [("digits", words)]


def test_every_device_has_its_choice(run):
    run.add(samples_ms=scaled(3))
    run.add(precision="float16")
    run.add(target="phone", device="board", samples_ms=scaled(2))
    assert [name for name, _ in headlines_of(run)] == ["digits on local", "digits on board"]
    assert headlines_of(run)[0][1] == "the fastest that meets its goals is float16 on cpu, 1.000 ms"


def test_factors_in_words():
    assert speedup_words(17.04, 17.0, 17.1, "it") == "17 times as fast as it"
    assert speedup_words(0.4, 0.39, 0.41, "it") == "2.5 times as slow as it"
    assert speedup_words(1234.5, 1200.0, 1250.0, "it") == "1234 times as fast as it"


def test_a_factor_with_bounds_far_apart_is_its_bounds():
    assert speedup_words(3.95, 1.9, 9.3, "it") == "1.9 to 9.3 times as fast as it"
    assert speedup_words(0.25, 0.1, 0.5, "it") == "2 to 10 times as slow as it"
    assert speedup_words(1.2, 0.9, 1.5, "it") == "no clear difference to it"


def test_the_original_framework_is_compared_with_in_words(run):
    run.add()
    summary, _ = compared(run)
    (row,) = summary.rows
    beside = row.model_copy(
        update={
            "baseline": "onnxruntime",
            "baseline_ms": 2.0,
            "speedup": 0.5,
            "speedup_low": 0.49,
            "speedup_high": 0.51,
        }
    )
    assert Comparison(beside).words == ["2 times as slow as onnxruntime (2.000 ms)"]
