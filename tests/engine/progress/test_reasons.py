"""Reasons name what changed, and omit what is implied."""

import pytest

from tvmake.engine.progress.reasons import is_uncertain, kinds_of, why
from tvmake.engine.up_to_date.changes import Change

FIRST = "Missing output files: results/a/mod.so, results/a/mod.json; Input files updated by another job: results/a/module.json"
BEHIND = "Input files updated by another job: results/a/module.json"
PARAMS = (
    "Params have changed since last execution: Union of exclusive params before and now across all output: before: {…}"
)


def test_a_job_that_never_ran_has_no_further_reason():
    new = [Change("missing", "results/a/mod.so")]
    assert why(kinds_of(FIRST), new) == "not made yet"


def test_a_result_that_was_removed_is_named():
    removed = [Change("missing", "results/a/mod.so", before="there")]
    assert why(kinds_of(FIRST), removed) == "results/a/mod.so was removed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([], "its options, code or library versions changed"),
        ([Change("option", "build.opt_level", "3", "2")], "build.opt_level: 3 → 2"),
        ([Change("code", "numpy", "2.1", "2.2")], "numpy: 2.1 → 2.2"),
        ([Change("source", "a.onnx", "12ab", None)], "a.onnx: 12ab → not there"),
        ([Change("option", f"key{number}", "1", "2") for number in range(5)], "key0: 1 → 2, key1: 1 → 2, key2: 1 → 2, and 2 more"),
    ],
)  # fmt: skip
def test_a_changed_parameter_is_named_where_it_is_known(changes: list[Change], words: str):
    assert why(kinds_of(PARAMS), changes) == words


def test_only_what_runs_for_no_reason_of_its_own_is_uncertain():
    assert is_uncertain(kinds_of(BEHIND))
    assert not is_uncertain(kinds_of(FIRST))
    assert not is_uncertain(kinds_of(PARAMS))
    assert why(kinds_of(BEHIND), []) == "its inputs may change"
    assert why(kinds_of("Forced execution"), []) == "forced"


def test_an_altered_result_is_not_also_called_forced():
    altered = Change("altered", "results/a/mod.so", "12ab", "34cd")
    assert why(kinds_of("Forced execution"), [altered]) == "results/a/mod.so was altered: 12ab → 34cd"
    assert why(kinds_of("Forced execution"), [Change("option", "tuning.trials", "1", "2")]).endswith("1 → 2, forced")
