"""Paths in a config: those that no program can take for one are refused in one line, with what to write instead."""

from pathlib import Path

import pytest
import yaml

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
    ["", " ", "-x", "a\0b", "a\nb", "\x1b[2J", "../other", "a/../../b", "~/out", "/", "//", "{model}", "logs", ".snakemake/x", " a", "x" * 256, ".", "./", "$HOME/out", "${HOME}", "%TEMP%", "\u201cout\u201d", "C:\\out"],
)  # fmt: skip
def test_a_directory_of_results_that_cannot_be_one_is_refused(results: str):
    assert refusal(results=results).problem.startswith("results: ")


@pytest.mark.parametrize(
    ("given", "meant"), [("out", "out"), ("tuned/results", "tuned/results"), ("./out/", "out"), ("/srv/out//x", "/srv/out/x")]
)  # fmt: skip
def test_directories_in_the_project_and_whole_paths_are_taken(given: str, meant: str):
    assert check({"models": {"digits": MODEL}, "results": given}, {}).results == meant


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
        {"tuning": {"shared": "\u201cx\u201d"}},
    ],
)
def test_every_path_of_a_config_is_looked_at(keys: dict[str, object]):
    refusal(**keys)


def test_the_refusal_of_an_option_says_what_to_write(tmp_path: Path):
    assert refusal(models={"digits": {"source": "-x.onnx"}}).remedy == "write ./-x.onnx"
    check(yaml.safe_load("models: {digits: {source: ./-x.onnx}}"), {})


def test_a_place_named_by_a_url_may_have_characters_written_by_number():
    url = "s3://bucket/of%20two%20words"
    assert check({"models": {"digits": MODEL}, "tuning": {"shared": url}}, {}).tuning.shared == url
    assert "$BUCKET" in refusal(tuning={"shared": "s3://$BUCKET/records"}).problem
