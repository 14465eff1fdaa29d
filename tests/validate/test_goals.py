from pathlib import Path

import pytest
from pydantic import ValidationError

from tvmake.config.validation import DEFAULT_GOALS, Goals, PrecisionGoals, ValidationOptions, goals_for


def test_defaults_depend_on_the_precision():
    bounds = [goals_for(precision).sqnr_db for precision in ("float16", "float16_acc32", "float32")]
    assert bounds == sorted(set(bounds))


def test_a_models_goals_win_over_validation_and_its_precision_over_both():
    everywhere = PrecisionGoals(rtol=1e-3, atol=1e-2)
    model = PrecisionGoals(rtol=1e-2, per_precision={"float16": Goals(rtol=0.5)})
    assert (goals_for("float32", everywhere, model).rtol, goals_for("float32", everywhere, model).atol) == (1e-2, 1e-2)
    assert goals_for("float16", everywhere, model).rtol == 0.5


def test_null_drops_a_default_goal_and_leaving_it_out_keeps_it():
    goals = goals_for("float32", PrecisionGoals(sqnr_db=None), None)
    assert goals.sqnr_db is None
    assert goals.max_abs_rms == DEFAULT_GOALS["float32"].max_abs_rms


def test_an_unknown_precision_is_refused_by_name():
    with pytest.raises(
        ValidationError, match="no such precision 'fp16'; known: float32, tf32, float16, int8, float16_acc32"
    ):
        PrecisionGoals.model_validate({"per_precision": {"fp16": {}}})


@pytest.mark.parametrize("goals", [{"cosine": 2}, {"rtol": -1}, {"atol": float("nan")}, {"top1": 97}, {"cosinus": 1}])
def test_goals_that_make_no_sense_are_refused(goals):
    with pytest.raises(ValidationError):
        ValidationOptions.model_validate({"goals": goals})


def test_options_survive_json():
    options = ValidationOptions(goals=PrecisionGoals(top1=0.9, rtol=None))
    again = ValidationOptions.model_validate_json(options.model_dump_json(exclude_unset=True))
    assert goals_for("float32", again.goals) == goals_for("float32", options.goals)


def test_the_table_in_the_docs_has_the_defaults():
    text = (Path(__file__).parents[2] / "docs/guides/validate.md").read_text()
    header, _, *rows = [
        line for line in text.partition("## Goals")[2].partition("\n## ")[0].splitlines() if line.startswith("|")
    ]
    precisions = [cell.strip() for cell in header.split("|")[2:-1]]
    told = {
        (precision, row.split("`")[1]): cell.strip()
        for row in rows
        for precision, cell in zip(precisions, row.split("|")[2:-1], strict=True)
    }
    spelled = {None: "–", True: "yes"}
    for precision, goals in DEFAULT_GOALS.items():
        for name, bound in goals:
            cell = told.get((precision, name), "–")
            assert cell == spelled.get(bound) or float(cell) == bound, (precision, name)


def test_a_quantised_source_is_held_to_the_defaults_of_auto_and_to_the_goals_that_are_set():
    def rounded(precision: str) -> Goals:
        return DEFAULT_GOALS[precision].updated(Goals(equal_within_step=0.8))

    for precision in ("float32", "float16_acc32"):
        assert goals_for(precision, is_quantized=True) == rounded("auto")
    for precision in ("float16", "int8", "int8_weights", "int4_weights"):
        assert goals_for(precision, is_quantized=True) == rounded(precision)
    own = PrecisionGoals(sqnr_db=40, per_precision={"float32": Goals(cosine=0.999)})
    goals = goals_for("float32", own, is_quantized=True)
    assert (goals.sqnr_db, goals.cosine) == (40, 0.999)
