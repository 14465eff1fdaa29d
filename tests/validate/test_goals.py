import pytest
from pydantic import ValidationError

from tvmake.config.validation import DEFAULT_GOALS, Goals, PrecisionGoals, ValidationOptions, goals_for


def test_defaults_depend_on_the_precision():
    assert goals_for("float32").rtol == 1e-4
    assert goals_for("float16").rtol is None
    assert goals_for("float16").sqnr_db < goals_for("float16_acc32").sqnr_db


def test_a_models_goals_win_over_validation_and_its_precision_over_both():
    everywhere = PrecisionGoals(rtol=1e-3, atol=1e-2)
    model = PrecisionGoals(rtol=1e-2, per_precision={"float16": Goals(rtol=0.5)})
    assert (goals_for("float32", everywhere, model).rtol, goals_for("float32", everywhere, model).atol) == (1e-2, 1e-2)
    assert goals_for("float16", everywhere, model).rtol == 0.5


def test_null_drops_a_default_goal_and_leaving_it_out_keeps_it():
    goals = goals_for("float32", PrecisionGoals(rtol=None), None)
    assert goals.rtol is None
    assert goals.atol == DEFAULT_GOALS["float32"].atol


def test_an_unknown_precision_is_refused_by_name():
    with pytest.raises(ValidationError, match="no such precision 'fp16'; there are float32, float16, float16_acc32"):
        PrecisionGoals.model_validate({"per_precision": {"fp16": {}}})


@pytest.mark.parametrize("goals", [{"cosine": 2}, {"rtol": -1}, {"atol": float("nan")}, {"top1": 97}, {"cosinus": 1}])
def test_goals_that_make_no_sense_are_refused(goals):
    with pytest.raises(ValidationError):
        ValidationOptions.model_validate({"goals": goals})


def test_options_survive_json():
    options = ValidationOptions(goals=PrecisionGoals(top1=0.9, rtol=None))
    again = ValidationOptions.model_validate_json(options.model_dump_json(exclude_unset=True))
    assert goals_for("float32", again.goals) == goals_for("float32", options.goals)
