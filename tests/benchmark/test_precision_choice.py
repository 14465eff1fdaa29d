"""Which candidate is chosen, and what is said of each."""

import pytest

from tvmake.benchmark.precision_choice import MeasuredAssignment, choose, explain_choices
from tvmake.quantize.precision import LayerAssignment
from tvmake.validate.verdict import MissedGoal

ANY = LayerAssignment(layers=["float32", "int8"])


def measured(name: str, latency_ms: float, noise: float, *missed: MissedGoal) -> MeasuredAssignment:
    return MeasuredAssignment(name=name, assignment=ANY, latency_ms=latency_ms, noise=noise, missed=list(missed))


def sqnr(value: float) -> MissedGoal:
    return MissedGoal(goal="sqnr_db", bound=40.0, value=value, reason=f"{value} dB")


def chosen(*candidates: MeasuredAssignment) -> str:
    return candidates[choose(candidates)[0]].name


def test_the_fastest_that_meets_the_goals_is_chosen():
    assert chosen(measured("a", 3, 1e-9), measured("b", 1, 1e-2, sqnr(20)), measured("c", 2, 1e-5)) == "c"


def test_of_those_as_fast_the_most_accurate_is_chosen_and_the_reason_names_the_fastest():
    candidates = [measured("fast", 1.0, 1e-4), measured("exact", 1.015, 1e-6), measured("slow", 1.03, 1e-9)]
    index, because = choose(candidates)
    assert candidates[index].name == "exact"
    assert "as fast as 'fast' within 2%" in because


def test_where_none_meets_the_goals_the_nearest_is_chosen_and_it_says_by_how_much_it_misses():
    candidates = [measured("a", 1, 1e-2, sqnr(20)), measured("b", 3, 1e-3, sqnr(38))]
    index, because = choose(candidates)
    assert candidates[index].name == "b"
    assert because == "none meets the goals, and this one misses them least: sqnr_db (goal 40): 38 dB"


def test_what_failed_or_was_not_timed_is_not_chosen():
    failed = MeasuredAssignment(name="failed", assignment=ANY, problem="cannot be built: no such instruction")
    untimed = MeasuredAssignment(name="untimed", assignment=ANY, noise=1e-9)
    assert chosen(failed, untimed, measured("c", 9, 1e-3)) == "c"
    with pytest.raises(ValueError, match="no candidate was measured"):
        choose([failed, untimed])


def test_every_candidate_has_its_reason_and_its_place_on_the_front():
    failed = MeasuredAssignment(name="failed", assignment=ANY, problem="does not run: it crashed")
    candidates = [
        measured("slow", 4, 1e-9),
        measured("beaten", 5, 1e-3),
        measured("chosen", 2, 1e-5),
        measured("coarse", 1, 1e-2, sqnr(20)),
        failed,
    ]
    index, because = choose(candidates)
    found = {one.name: one for one in explain_choices(candidates, index, because)}
    assert list(found) == ["coarse", "chosen", "slow", "beaten", "failed"]
    assert {name: one.is_on_front for name, one in found.items()} == {
        "coarse": True, "chosen": True, "slow": True, "beaten": False, "failed": False,
    }  # fmt: skip
    assert found["chosen"].reason == "the fastest that meets the goals"
    assert found["coarse"].reason == "misses sqnr_db (goal 40): 20 dB"
    assert found["slow"].reason == "takes 2.00 × as long as the chosen candidate"
    assert (
        found["beaten"].reason == "takes 2.50 × as long as the chosen candidate; 'chosen' is faster and more accurate"
    )
    assert found["failed"].reason == "does not run: it crashed"
