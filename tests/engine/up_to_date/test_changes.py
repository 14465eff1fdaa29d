"""A reason fits in one terminal line, however long the values are."""

from tvmake.engine.up_to_date.changes import Change


def test_short_values_are_shown_in_full():
    assert str(Change("option", "build.opt_level", "3", None)) == "build.opt_level: 3 → not there"


def test_of_long_values_the_part_that_differs_is_shown():
    text = str(Change("option", "title", f"{'a' * 200}one", f"{'a' * 200}two"))
    assert len(text) <= 100 and "one → " in text and text.endswith("two")
    assert str(Change("option", "title", None, "b" * 300)) == f"title: not there → {'b' * 36}…"


def test_a_former_input_is_not_reported_as_missing():
    assert str(Change("input", "results/a/mod.json", "there", None)) == "no longer reads results/a/mod.json"
    assert str(Change("input", "results/a/mod.json", None, "there")) == "reads results/a/mod.json"
