"""A reason fits in one terminal line, however long the values are."""

import json

import pytest

from tvmake.engine.up_to_date.changes import Change
from tvmake.engine.up_to_date.format_change import format_change

ROW = {"device": "local", "goals": {f"goal{number}": None for number in range(20)}}


def row(precision: str, **values: object) -> dict[str, object]:
    return {"model": "digits", "precision": precision, "target": "cpu", **ROW, **values}


def texts(*values: object) -> list[str]:
    return [json.dumps(value) for value in values]


def test_short_values_stand_whole():
    assert format_change("build.opt_level", "3", None) == "build.opt_level: 3 → not there"
    assert (
        format_change("models.a.inputs.x.shape", *texts([1, 3], [1, 4])) == "models.a.inputs.x.shape: [1, 3] → [1, 4]"
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([row("float32"), row("float16")], [row("float32")], "without digits/float16/cpu"),
        ([row("float32")], [row("float32"), row("int8")], "with digits/int8/cpu"),
        ([row("a"), row("b"), row("c"), row("d")], [row("e")], "without digits/a/cpu, digits/b/cpu, 2 more, with digits/e/cpu"),
        ([row("float32")], [row("float32", device=None, tuned=True)], "other digits/float32/cpu (device, tuned)"),
        ([row("float32"), row("float16")], [row("float16"), row("float32")], "in another order"),
        ([f"pass{number}" for number in range(40)], [f"pass{number}" for number in range(39)], "without pass39"),
        ([{"use": "a.py:f", "at": 1}] * 9, [{"use": "b.py:f", "at": 1}] * 9, "without a.py:f, with b.py:f"),
    ],
)  # fmt: skip
def test_of_long_lists_the_items_that_differ_are_named(before: list[object], after: list[object], words: str):
    change = Change("option", "variants", *texts(before, after))
    assert str(change) == f"variants: {words}"
    assert change.before == json.dumps(before)  # whole, for --json


def test_of_other_long_values_the_part_that_differs_is_shown():
    text = format_change("title", f"{'a' * 200}one", f"{'a' * 200}two")
    assert len(text) <= 100 and "one → " in text and text.endswith("two")
    assert format_change("title", None, "b" * 300) == f"title: not there → {'b' * 36}…"


def test_a_former_input_is_not_reported_as_missing():
    assert str(Change("input", "results/a/mod.json", "there", None)) == "no longer reads results/a/mod.json"
    assert str(Change("input", "results/a/mod.json", None, "there")) == "reads results/a/mod.json"
