"""Models with functions: what each function gets, and what is refused, by the user's own keys."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tvmake.config.reading.load import check, load
from tvmake.config.root import Config
from tvmake.errors import TvmakeError
from tvmake.plan.plan import Plan


def config(text: str) -> Config:
    return check(yaml.safe_load(text), {})


def functions(keys: str, beside: str = "") -> str:
    return f"models: {{speech: {{{beside}functions: {{decode: {{source: decode.onnx, {keys}}}, encode: {{source: encode.onnx}}}}}}}}"


def refusal(text: str) -> str:
    with pytest.raises(TvmakeError) as refused:
        config(text)
    return str(refused.value)


def test_each_function_is_a_network_of_its_own():
    known = config(functions("", "precisions: [float32], "))
    assert known.combinations() == (("speech.decode", "float32", "cpu"), ("speech.encode", "float32", "cpu"))
    assert known.functions("speech") == {"decode": "speech.decode", "encode": "speech.encode"}
    assert [known.group_of(name) for name in ("speech.decode", "speech", "other")] == ["speech", "", ""]
    assert known.key_of("speech.decode") == "models.speech.functions.decode"


def test_keys_beside_functions_hold_for_all_and_own_ones_come_first():
    text = functions(
        "tuning: {floor: 2}, dims: {length: 1}, goals: {cosine: 0.9}, seed: 3",
        "tuning: {trials: 8, floor: 4}, dims: {length: 16, batch: 2}, goals: {sqnr_db: 30}, trusted: true, ",
    )
    decode, encode = config(text).networks.values()
    assert (decode.tuning.trials, decode.tuning.floor) == (8, 2)
    assert (encode.tuning.trials, encode.tuning.floor) == (8, 4)
    assert (decode.dims, encode.dims) == ({"length": 1, "batch": 2}, {"length": 16, "batch": 2})
    assert (decode.goals.cosine, decode.goals.sqnr_db, encode.goals.cosine) == (0.9, 30, None)
    assert (decode.trusted, encode.trusted, decode.seed, encode.seed) == (True, True, 3, 0)
    assert decode.import_options().trusted is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: {speech: {source: a.onnx, functions: {decode: {source: b.onnx}}}}", "has a `source` beside `functions`"),
        ("models: {speech: {functions: {}}}", "models.speech.functions: expected at least one entry"),
        ("models: {speech: {functions: {decode: {}}}}", "models.speech.functions.decode.source: this key is required"),
        ("models: {speech: {functions: {decode: b.onnx}}}", "write decode: {source: b.onnx}"),
        ("models: {speech: {functions: [decode]}}", "write functions: {NAME: {source: FILE}}"),
        ("models: {speech: {functions: {De-code: {source: b.onnx}}}}", "a name of lower-case letters, digits and underscores"),
        (functions("dimz: {}"), "models.speech.functions.decode.dimz: unknown key"),
        (functions("", "dimz: {}, "), "models.speech.dimz: unknown key"),
        (functions("source: b.xyz"), "models.speech.functions.decode.source: cannot tell the format"),
        (functions("functions: {}"), "models.speech.functions.decode.functions: unknown key"),
        (functions("shapes: [{length: 2}]", "dims: {length: 3}, "), "in the function decode, {length: 2} gives length a size"),
        (functions("precisions: [int9]"), "models.speech.functions.decode.precisions: no 'int9'"),
        ("models: {a: {functions: {b: {source: b.onnx}}}, a.b: {source: b.onnx}}", "models.a.functions.b has the same name"),
        (f"models: {{{'a' * 80}: {{functions: {{b: {{source: b.onnx}}}}}}}}", "has more than 80 letters"),
        ("models: {best: {functions: {b: {source: b.onnx}}}}", "models.best: the name is used by results/best"),
        (functions("") + "\nvariants: {exclude: [{model: speec}]}", "did you mean 'speech'?"),
    ],
)  # fmt: skip
def test_mistakes_name_the_users_keys(text: str, problem: str):
    assert problem in refusal(text)


def test_a_model_without_keys_is_still_told_what_to_write():
    assert "write speech: {source: a.onnx}" in refusal("models: {speech: a.onnx}")


def test_mistakes_have_the_line_of_the_functions_key(tmp_path: Path):
    file = tmp_path / "tvmake.yaml"
    file.write_text("models:\n  speech:\n    functions:\n      decode:\n        source: a.onnx\n        seed: x\n")
    with pytest.raises(TvmakeError, match=r"tvmake\.yaml:6: models\.speech\.functions\.decode\.seed"):
        load([file])


@pytest.mark.parametrize(
    ("variants", "left"),
    [
        ({"exclude": [{"model": "speech", "precision": "float16"}]}, ["speech.decode/float32", "speech.encode/float32"]),
        ({"exclude": [{"model": "speech.decode"}]}, ["speech.encode/float32", "speech.encode/float16"]),
        (
            {
                "exclude": [{"model": "speech"}],
                "include": [{"model": "speech", "precision": "float16", "target": "cpu"}],
            },
            ["speech.decode/float16", "speech.encode/float16"],
        ),
    ],
)  # fmt: skip
def test_variants_name_all_functions_or_one(variants: dict[str, Any], left: list[str]):
    values = {**yaml.safe_load(functions("")), "precisions": ["float32", "float16"], "variants": variants}
    assert [f"{model}/{precision}" for model, precision, _ in check(values, {}).combinations()] == left


def test_the_resolved_config_loads_to_the_same_plan():
    plan = Plan(config(functions("dims: {length: 1}", "precisions: [float32], ")))
    again = Plan(check(plan.resolved_config(), {}))
    assert again.config.networks == plan.config.networks
    assert again.variants == plan.variants
