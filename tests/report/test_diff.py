import io

import pytest
from rich.console import Console

from tests.report.conftest import gather
from tvmake.config.validation import Goals
from tvmake.errors import InputError
from tvmake.report.diff import compare
from tvmake.report.diff_text import print_diff
from tvmake.report.rows import SummaryRow


def steady(median_ms):
    return [median_ms * factor for factor in (0.999, 1.0, 1.001) * 4]


def spread(median_ms, cv):
    return [median_ms * (1 + cv * sign) for sign in (-1, 1) * 6] + [median_ms]


def diff(run, another_run):
    return compare(gather(run.request), gather(another_run.request))


@pytest.mark.parametrize(
    ("after", "said"), [(1.0, "same"), (1.04, "same"), (0.97, "same"), (1.06, "slower"), (0.94, "faster")]
)
def test_a_steady_latency_changed_when_it_moves_by_more_than_the_floor(run, another_run, after, said):
    run.add(samples_ms=steady(1.0))
    another_run.add(samples_ms=steady(after))
    (variant,) = diff(run, another_run).variants
    assert variant.latency == said
    assert variant.ratio == pytest.approx(after)


@pytest.mark.parametrize(("after", "said"), [(1.10, "same"), (1.40, "slower")])
def test_a_change_counts_when_the_interval_excludes_none(run, another_run, after, said):
    run.add(samples_ms=spread(1.0, 0.1))
    another_run.add(samples_ms=spread(after, 0.1))
    (variant,) = diff(run, another_run).variants
    assert variant.low < variant.ratio < variant.high
    assert (variant.low > 1) == (said == "slower")
    assert variant.latency == said


def test_outliers_hide_no_slowdown(run, another_run):
    run.add(samples_ms=[1.0] * 18 + [50.0, 80.0])
    another_run.add(samples_ms=[4.0] * 18 + [90.0, 200.0])
    found = diff(run, another_run)
    assert found.variants[0].ratio == pytest.approx(4)
    assert found.exit_code(10) == 4


def with_baseline(summary, speedup, framework="onnxruntime 1.31"):
    row = summary.rows[0]
    figures = {"baseline": framework, "speedup": speedup, "speedup_low": speedup * 0.98, "speedup_high": speedup * 1.02}
    return summary.model_copy(update={"rows": [row.model_copy(update=figures)]})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(0.5, 0.5, "same"), (0.5, 0.49, "same"), (0.5, 0.4, "slower"), (0.5, 0.6, "same")],
    ids=["the baseline as well", "nearly as well", "the baseline not", "the baseline more"],
)
def test_a_slowdown_has_to_show_against_the_baseline_too(run, another_run, before, after, said):
    run.add(samples_ms=steady(1.0))
    another_run.add(samples_ms=steady(1.25))
    old, new = with_baseline(gather(run.request), before), with_baseline(gather(another_run.request), after)
    found = compare(old, new)
    (variant,) = found.variants
    assert variant.latency == said
    assert variant.relative == pytest.approx(before / after)
    assert found.exit_code(10) == (4 if said == "slower" else 0)
    assert any("the machine, not the package" in line for line in variant.changes) == (said == "same")


def test_another_framework_says_nothing_of_a_slowdown(run, another_run):
    run.add(samples_ms=steady(1.0))
    another_run.add(samples_ms=steady(1.25))
    old = with_baseline(gather(run.request), 0.5)
    new = with_baseline(gather(another_run.request), 0.5, "onnxruntime 1.32")
    (variant,) = compare(old, new).variants
    assert variant.latency == "slower"
    assert variant.relative is None


def test_a_summary_without_samples_is_refused_and_not_called_the_same(run, another_run):
    run.add()
    another_run.add()
    old = gather(run.request)
    old = old.model_copy(update={"rows": [row.model_copy(update={"samples_ms": []}) for row in old.rows]})
    with pytest.raises(InputError, match="the old run's summary has no latency samples"):
        compare(old, gather(another_run.request))


def test_swapping_the_runs_swaps_the_verdict(run, another_run):
    run.add(samples_ms=steady(1.0))
    another_run.add(samples_ms=steady(1.051))
    assert diff(run, another_run).variants[0].latency == "slower"
    assert diff(another_run, run).variants[0].latency == "faster"


def test_latencies_of_different_devices_are_shown_but_not_judged(run, another_run):
    run.add(samples_ms=steady(1.0), soc="Fast SoC")
    another_run.add(samples_ms=steady(9.0), soc="Slow SoC")
    found = diff(run, another_run)
    (variant,) = found.variants
    assert variant.latency == "not comparable"
    assert "device Fast SoC → Slow SoC" in variant.changes
    assert found.exit_code(None) == 0
    with pytest.raises(InputError, match="no latency of the old run"):
        found.exit_code(0)


def test_a_gate_judges_what_can_be_compared_and_names_the_rest(run, another_run):
    for each, soc in ((run, "Fast SoC"), (another_run, "Slow SoC")):
        each.add(samples_ms=steady(1.0))
        each.add(target="phone", samples_ms=steady(1.0), soc=soc)
    found = diff(run, another_run)
    assert found.exit_code(5) == 0
    assert [variant.variant for variant in found.without_comparison()] == ["digits/float32/phone"]


def test_a_missed_goal_fails_the_gate_on_another_device_too(run, another_run):
    run.add(soc="Fast SoC")
    another_run.add(error=0.5, soc="Slow SoC")
    assert diff(run, another_run).exit_code(5) == 4


def test_different_ranking_statistics_are_compared_by_the_median(run, another_run):
    run.add(samples_ms=steady(1.0), percentile="p90")
    another_run.add(samples_ms=steady(1.0), percentile="p50")
    (variant,) = diff(run, another_run).variants
    assert (variant.statistic, variant.old_ms, variant.new_ms) == ("p50", 1.0, 1.0)


def test_changed_numerics_tuning_and_size_are_reported(run, another_run):
    run.add(tuned=0, goals=None)
    another_run.add(tuned=4, error=0.5, weights=b"x" * 50_000)
    (variant,) = diff(run, another_run).variants
    told = " | ".join(variant.changes)
    assert "verdict pass → fail" in told
    assert "now misses allclose of logits" in told
    assert "SQNR exact → " in told
    assert "tuned kernels 0/4 → 4/4" in told
    assert "package 10.2 kB → 61.4 kB" in told
    assert variant.is_worse


def test_a_package_that_was_not_made_before_is_compared_with_nothing(run):
    run.add()
    made = gather(run.request)
    names = {"model": "digits", "precision": "float32", "target": "cpu", "device": "local"}
    failed = SummaryRow(**names, verdict="failed", stage="build", cause="no g++")
    (variant,) = compare(made.model_copy(update={"rows": [failed]}), made).variants
    assert variant.changes == ["verdict failed → pass"]


def test_variants_that_came_or_went_are_listed(run, another_run):
    run.add(model="old")
    run.add()
    another_run.add()
    another_run.add(model="new")
    found = diff(run, another_run)
    assert (found.added, found.removed) == (["new/float32/cpu"], ["old/float32/cpu"])
    assert [variant.variant for variant in found.variants] == ["digits/float32/cpu"]


def test_equal_runs_have_nothing_to_tell(run, another_run):
    for each in (run, another_run):
        each.add()
        each.add(target="phone", device=None)
    found = diff(run, another_run)
    assert [variant.changes for variant in found.variants] == [[], []]
    assert [variant.latency for variant in found.variants] == ["same", "not measured"]
    assert (found.added, found.removed, found.notes) == ([], [], [])


@pytest.mark.parametrize(
    ("percent", "code"), [(None, 0), (0, 4), (5, 4), (15, 0)], ids=["unasked", "any", "less", "more"]
)
def test_a_slowdown_fails_the_diff_when_asked_and_beyond_the_percentage(run, another_run, percent, code):
    run.add(samples_ms=steady(1.0))
    another_run.add(samples_ms=steady(1.1))
    assert diff(run, another_run).exit_code(percent) == code


def test_a_slowdown_within_the_noise_fails_no_diff(run, another_run):
    run.add(samples_ms=spread(1.0, 0.2))
    another_run.add(samples_ms=spread(1.2, 0.2))
    assert diff(run, another_run).exit_code(5) == 0


def test_goals_that_were_met_and_are_missed_now_fail_the_diff_whatever_the_percentage(run, another_run):
    run.add()
    another_run.add(error=0.5)
    assert diff(run, another_run).exit_code(1000) == 4


def test_another_goal_that_is_missed_fails_the_diff_of_a_variant_that_missed_one_already(run, another_run):
    run.add(error=0.001, goals=Goals(rtol=1e-4))
    another_run.add(error=0.5, goals=Goals(rtol=1e-4, cosine=0.99))
    assert diff(run, run).exit_code(5) == 0
    assert diff(run, another_run).exit_code(5) == 4


def test_a_variant_whose_goals_are_no_longer_checked_fails_the_diff(run, another_run):
    run.add()
    another_run.add(device=None)
    assert diff(run, another_run).exit_code(5) == 4
    assert diff(another_run, run).exit_code(5) == 0


def test_runs_without_a_common_variant_pass_no_gate(run, another_run):
    run.add()
    another_run.add(target="renamed")
    found = diff(run, another_run)
    assert found.exit_code(None) == 0
    with pytest.raises(InputError, match="nothing to judge"):
        found.exit_code(5)


def test_runs_the_wrong_way_round_are_reported(run, another_run):
    for each in (run, another_run):
        each.add()
    later = gather(run.request).model_copy(update={"created_at": "2030-01-01T00:00:00+00:00"})
    assert compare(gather(another_run.request), later).notes == []
    (note,) = compare(later, gather(another_run.request)).notes
    assert note.startswith("the old run is the later one: 2030-01-01")


def test_the_text_has_one_line_a_variant_and_one_a_change(run, another_run):
    run.add(samples_ms=steady(1.0))
    run.add(model="gone")
    another_run.add(samples_ms=steady(1.5), tuned=4)
    text = io.StringIO()
    print_diff(diff(run, another_run), Console(file=text, width=20))
    header, row, *remarks = text.getvalue().splitlines()
    assert header.split() == [
        "variant",
        "statistic",
        "old",
        "ms",
        "new",
        "ms",
        "change",
        "95",
        "%",
        "interval",
        "latency",
    ]
    assert row.split() == [
        "digits/float32/cpu",
        "p50",
        "1.000",
        "1.500",
        "+50.0",
        "%",
        "+49.9",
        "…",
        "+50.1",
        "%",
        "slower",
    ]
    assert remarks == ["digits/float32/cpu: tuned kernels 0/4 → 4/4", "removed: gone/float32/cpu"]
