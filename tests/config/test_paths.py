"""Invalid paths in a config are refused in one line, with a remedy."""

from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from tvmake.config.base import LocalPath
from tvmake.config.reading.load import check
from tvmake.errors import InputError

MODEL = {"source": "digits.onnx"}


def refusal(**keys: object) -> InputError:
    with pytest.raises(InputError) as caught:
        check({"models": {"digits": MODEL}, **keys}, {})
    assert "\n" not in caught.value.problem and caught.value.problem.isprintable()
    return caught.value


@pytest.mark.parametrize(
    "results",
    ["", " ", "-x", "a\0b", "a\nb", "\x1b[2J", "../other", "a/../../b", "~/out", "/", "//", "{model}", ".snakemake/x", " a", ".", "./", "$HOME/out", "${HOME}", "%TEMP%", "C:\\out"],
)  # fmt: skip
def test_an_invalid_results_directory_is_refused(results: str):
    assert refusal(results=results).problem.startswith("results: ")


@pytest.mark.parametrize(
    ("path", "expected"), [("out", "out"), ("tuned/results", "tuned/results"), ("./out/", "out"), ("/srv/out//x", "/srv/out/x")]
)  # fmt: skip
def test_relative_and_absolute_results_directories_are_accepted(path: str, expected: str):
    assert check({"models": {"digits": MODEL}, "results": path}, {}).results == expected


@pytest.mark.parametrize(
    "keys",
    [
        {"models": {"digits": {"source": "-rf.onnx"}}},
        {"models": {"digits": {"source": "a\0.onnx"}}},
        {"models": {"digits": {**MODEL, "dataset": {"path": "-d.npz"}}}},
        {"models": {"digits": {**MODEL, "files": ["--help"]}}},
        {"tuning": {"store": "-s"}},
        {"tuning": {"frozen": "\x7f"}},
        {"cache": "-c"},
        {"cache": {"secret_file": ""}},
        {"cache": "$SCRATCH/cache"},
        {"tuning": {"store": "${SCRATCH}"}},
    ],
)
def test_every_path_of_a_config_is_checked(keys: dict[str, object]):
    refusal(**keys)


def test_a_path_like_an_option_is_refused_with_a_remedy(tmp_path: Path):
    assert refusal(models={"digits": {"source": "-x.onnx"}}).remedy == "write ./-x.onnx"
    check(yaml.safe_load("models: {digits: {source: ./-x.onnx}}"), {})


def test_a_url_may_have_percent_encoded_characters():
    url = "s3://bucket/of%20two%20words"
    assert check({"models": {"digits": MODEL}, "tuning": {"shared": url}}, {}).tuning.shared == url
    assert "$BUCKET" in refusal(tuning={"shared": "s3://$BUCKET/records"}).problem


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("mod\udcc3\udca8le.onnx", "its byte 0xc3 is not text in this encoding; use a UTF-8 locale"),
        ("model\x1b.onnx", r"a path cannot contain the control character '\\x1b'; remove it"),
    ],
)
def test_a_path_that_cannot_be_printed_is_refused_with_the_reason(path: str, problem: str):
    with pytest.raises(ValidationError, match=problem):
        TypeAdapter(LocalPath).validate_python(path)
