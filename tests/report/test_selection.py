"""Of each model on each device, the fastest variant that meets all goals, and why the others are not it."""

import json

import numpy as np
import pytest

from tvmake.config.validation import Goals
from tvmake.report.rows import SummaryRow
from tvmake.report.selection import Selection
from tvmake.stages.results.select import select, write_selection


def samples(median_ms: float, spread: float = 0.01, seed: int = 0) -> list[float]:
    return (median_ms * (1 + spread * np.random.RandomState(seed).randn(20))).tolist()


def selection(run) -> Selection:
    return select(run.request, run.file("selection.json"), run.file("best"))


def reasons(run) -> dict[str, tuple[str, str]]:
    (choice,) = selection(run).choices
    return {loser.variant: (loser.why, loser.reason) for loser in choice.losers}


def test_the_fastest_is_chosen_and_the_others_say_how_much_slower_they_are(run):
    run.add(precision="float32", samples_ms=samples(2.0))
    run.add(precision="float16", samples_ms=samples(1.0))
    (choice,) = selection(run).choices
    assert (choice.model, choice.device, choice.chosen) == ("digits", "local", "digits/float16/cpu")
    assert (choice.percentile, choice.latency_ms) == ("p50", pytest.approx(1.0, rel=0.02))
    (loser,) = choice.losers
    assert (loser.variant, loser.why) == ("digits/float32/cpu", "slower")
    assert loser.reason.startswith("takes 2.0")
    assert loser.low < loser.ratio < loser.high


def test_a_faster_one_that_misses_a_goal_is_not_chosen_and_says_which(run):
    run.add(precision="float32", samples_ms=samples(2.0))
    run.add(precision="float16", samples_ms=samples(1.0), error=0.5)
    (choice,) = selection(run).choices
    assert choice.chosen == "digits/float32/cpu"
    why, reason = reasons(run)["digits/float16/cpu"]
    assert why == "missed"
    assert "missed allclose of logits" in reason


def test_goals_of_latency_and_size_count_as_much_as_numeric_ones(run):
    variant = run.add(precision="float32", samples_ms=samples(1.0))
    run.add(precision="float16", samples_ms=samples(3.0))
    limits = Goals(package_mb=0.000001, latency_ms={"p99": 0.5})
    run.variants[0] = variant.model_copy(update={"goals": limits})
    assert selection(run).choices[0].chosen == "digits/float16/cpu"
    assert reasons(run)["digits/float32/cpu"] == (
        "missed",
        "missed package_mb: package.tar has 0.0102 MB, the goal is 1e-06; missed latency_ms.p99: 1.022 ms, the goal is 0.5",
    )


def test_of_variants_that_noise_cannot_tell_apart_the_first_in_the_config_is_chosen(run, another_run):
    for each, first, second in ((run, 1.0, 0.99), (another_run, 0.99, 1.0)):
        each.add(precision="float32", samples_ms=samples(first, 0.05, seed=1))
        each.add(precision="float16", samples_ms=samples(second, 0.05, seed=2))
        (choice,) = selection(each).choices
        assert choice.chosen == "digits/float32/cpu"
        assert reasons(each)["digits/float16/cpu"][0] == "same"
        assert "as fast within noise" in reasons(each)["digits/float16/cpu"][1]


def test_models_and_devices_are_chosen_for_apart(run):
    run.add(model="digits", target="cpu", device="local")
    run.add(model="digits", target="phone", device="phone")
    run.add(model="other", target="cpu", device="local")
    run.add(model="other", target="nowhere", device=None)
    assert {(choice.model, choice.device): choice.chosen for choice in selection(run).choices} == {
        ("digits", "local"): "digits/float32/cpu",
        ("digits", "phone"): "digits/float32/phone",
        ("other", "local"): "other/float32/cpu",
    }


def test_variants_that_were_not_made_say_where_they_failed(run):
    run.add()
    unmade = [
        SummaryRow(
            model="digits",
            precision="float16",
            target="cpu",
            device="local",
            verdict="failed",
            stage="build",
            cause="no g++",
        ),
        SummaryRow(model="digits", precision="int8", target="cpu", device="local", verdict="not made", stage="import"),
    ]
    (choice,) = write_selection(run.request, unmade, run.file("selection.json"), run.file("best")).choices
    assert [(loser.why, loser.reason) for loser in choice.losers] == [
        ("failed", "failed at build: no g++"),
        ("not made", "not built: the run ended before its import"),
    ]


def test_the_directory_has_the_chosen_package_and_the_choice(run):
    chosen = run.add(samples_ms=samples(1.0))
    run.add(precision="float16", samples_ms=samples(2.0))
    found = selection(run)
    directory = run.file("best") / "digits" / "local"
    assert (directory / "package.tar").read_bytes() == run.path(chosen, "package.tar").read_bytes()
    assert json.loads((directory / "choice.json").read_text())["chosen"] == "digits/float32/cpu"
    assert Selection.model_validate_json(run.file("selection.json").read_bytes()) == found


def test_where_none_meets_its_goals_there_is_no_package(run):
    run.add(error=0.5)
    (choice,) = selection(run).choices
    assert choice.chosen is None
    assert sorted(path.name for path in (run.file("best") / "digits" / "local").iterdir()) == ["choice.json"]


def test_what_was_chosen_before_is_gone(run):
    run.add(model="old")
    selection(run)
    run.variants.clear()
    run.add(model="new")
    selection(run)
    assert sorted(path.name for path in run.file("best").iterdir()) == ["new"]


def test_the_summary_marks_the_best(run):
    run.add(samples_ms=samples(1.0))
    run.add(precision="float16", samples_ms=samples(2.0))
    assert [row.best for row in run.report().rows] == [True, False]
