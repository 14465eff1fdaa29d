"""``tvmake pack``: its words, and what it writes. tests/artifact/test_joining.py has what it refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.artifact.test_joining import BIAS, TABLE, package_of
from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.package import MANIFEST
from tvmake.cli.app import app
from tvmake.errors import InputError, UsageError
from tvmake.storage.tar import read_tar


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package_of(tmp_path, "decode", {"table": TABLE})
    package_of(tmp_path, "encode", {"embedding": TABLE, "bias": BIAS})


def pack(*words: str) -> str:
    done = CliRunner().invoke(app, ["pack", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_names_the_functions_and_the_size_of_their_weights():
    said = pack("decode=decode.tar", "encode=encode.tar", "-o", "chat.tar")
    assert said.startswith("wrote chat.tar: functions decode, encode; 16.6 kB of weights, each distinct one once")


def test_the_model_has_the_outputs_name_or_its_own():
    assert json.loads(pack("decode=decode.tar", "-o", "My chat.tar", "--json"))["model"] == "my-chat"
    pack("decode=decode.tar", "-o", "chat.tar", "--model", "speech")
    (content,) = (
        member.read(1 << 20) for member in read_tar(Path("chat.tar"), "", "", nested=True) if member.name == MANIFEST
    )
    assert FunctionsManifest.model_validate_json(content).model == "speech"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("decode.tar",), "is not a function and its package"),
        (("=decode.tar",), "is not a function and its package"),
        (("decode=decode.tar", "decode=encode.tar"), "names the function 'decode' again"),
    ],
)
def test_words_that_name_no_function_are_refused(words: tuple[str, ...], problem: str):
    with pytest.raises(UsageError, match=problem):
        pack(*words, "-o", "chat.tar")


def test_files_of_other_kinds_are_neither_read_nor_replaced():
    Path("model.onnx").touch()
    with pytest.raises(InputError, match="is a model, not a package"):
        pack("decode=model.onnx", "-o", "chat.tar")
    Path("notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a package"):
        pack("decode=decode.tar", "-o", "notes.txt")
