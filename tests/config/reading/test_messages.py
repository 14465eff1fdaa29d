"""What is said about a config's mistakes: where, what is wrong, and what to write instead."""

from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import check, load, load_layers
from tvmake.errors import InputError

NET = {"models": {"net": {"source": "net.onnx"}}}


def refused(**keys: object) -> str:
    with pytest.raises(InputError) as caught:
        check({**NET, **keys}, {})
    return str(caught.value)


def of_model(**keys: object) -> str:
    return refused(models={"net": {"source": "net.onnx", **keys}})


@pytest.mark.parametrize(
    ("goals", "words"),
    [
        ({"top1": "97%"}, "it is a share of 1: write 0.97"),
        ({"top1": 97}, "it is a share of 1: write 0.97"),
        ({"top1_drop": "0.5 %"}, "it is a share of 1: write 0.005"),
        ({"latency_ms": "5ms"}, "write the number alone, in the unit of the key: latency_ms: 5"),
        ({"latency_ms": {"p101": 5}}, "expected a percentile such as p50, p90 or p99.9 (got 'p101')"),
        (["top1"], "known keys here: rtol, atol"),
    ],
    ids=str,
)
def test_a_goal_in_other_units_is_shown_as_it_is_written(goals: object, words: str):
    message = of_model(goals=goals)
    assert message.startswith("config: models.net.goals")
    assert words in message


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"precisions": "float32"}, "write precisions: [float32]"),
        ({"targets": "llvm"}, "write targets: [llvm], or targets: {cpu: {kind: llvm}}"),
        ({"models": ["net.onnx"]}, "write models: {NAME: {source: FILE}}"),
        ({"build": {"dump": "ll, asm"}}, "write dump: [ll, asm]"),
        ({"benchmark": {"repeat": "100x"}}, "write the number alone, in the unit of the key: repeat: 100"),
        ({"benchmark": {"min_duration_s": "60s"}}, "min_duration_s: 60"),
        ({"benchmark": {"repeat": 0}}, "expected at least 1 (got 0)"),
        ({"build": {"opt_level": 9}}, "expected at most 4 (got 9)"),
        ({"tuning": {"trials": "1k"}}, "write it out: trials: 1000"),
        ({"transform": {"layout": "nhwc"}}, "did you mean 'NHWC'?"),
        ({"benchmark": "quick"}, "known keys here: profile, baseline"),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_shown_as_it_is_written(keys: dict[str, object], words: str):
    assert words in refused(**keys)


def test_a_shape_as_text_is_shown_as_a_list():
    assert "write shape: [1, 3, 8, 8]" in of_model(inputs={"x": {"shape": "1x3x8x8"}})
    assert "known keys here: shape, dtype, range" in of_model(inputs={"x": [1, 3, 8, 8]})


@pytest.mark.parametrize(
    ("text", "words", "remedy"),
    [
        (b"models:\n\tnet: {source: net.onnx}\n", ":2: not valid YAML", "indent with spaces: YAML takes no tabs"),
        (b"models: {}\ntitle: Pr\xfcfung\n", ":2: cannot be read: it is not UTF-8 text", "iconv -f LATIN1 -t UTF-8"),
        (b"models:\n  net: {source: net.onnx\n", "not valid YAML", "look at what begins in line 2"),
        (b'models:\n  net: {source: "net.onnx}\n', "not valid YAML", "look at what begins in line 2"),
        (b"models: *x\n", "not valid YAML", "in quotation marks"),
        (b"- net.onnx\n", "expected a mapping of keys, found a list", "begin with `models:`"),
        (b"precisions: [float32]\n", "models: this key is required", "`tvmake init MODEL` writes a config with it"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_text_that_is_no_config_is_named_with_its_line(text: bytes, words: str, remedy: str, tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_bytes(text)
    with pytest.raises(InputError) as caught:
        load([tmp_path / "tvmake.yaml"])
    assert words in str(caught.value)
    assert remedy in str(caught.value)


def test_an_unknown_key_of_a_setting_is_the_settings(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump(NET))
    with pytest.raises(InputError, match=r"^--set: benchmrk: unknown key"):
        load_layers([tmp_path / "tvmake.yaml"], {"benchmrk": {"repeat": 3}})
