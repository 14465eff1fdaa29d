"""The error for a mistyped command line has one line for the problem and one for the remedy."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.patience import HANG_S
from tvmake.cli import run


@pytest.mark.parametrize(
    ("typed", "wrong", "remedy"),
    [
        ("chek", "tvmake chek: there is no such command", "did you mean check?"),
        ("version", "tvmake version: there is no such command", "`tvmake --version` prints the version"),
        ("-V", "-V: `tvmake` has no such option", "`tvmake --version` prints the version"),
        ("records lst", "tvmake records lst: there is no such command", "did you mean list?"),
        ("records nothing-like-it", "tvmake records nothing-like-it: there is no such command", "see `tvmake records -h`"),
        ("run p.tar --fill one", "--fill one: expected one of random, zeros, ones (got 'one')", "did you mean 'ones'?"),
        ("run p.tar --fill x", "--fill x: expected one of random, zeros, ones (got 'x')", "--fill: Values of inputs without a file."),
        ("run p.tar --repeat x", "--repeat x: expected a whole number (got 'x')", "--repeat: Time N more runs."),
        ("run p.tar --repeat -1", "--repeat -1: expected at least 0 (got '-1')", "--repeat: Time N more runs."),
        ("run p.tar --repeat 99999999999", "--repeat 99999999999: expected at most 1000000 (got '99999999999')", "--repeat: Time"),
        ("run p.tar -o", "-o: its value is missing", "--output: Write the outputs to this file."),
        ("run p.tar --self-test=1", "--self-test: option '--self-test' does not take a value", "see `tvmake run -h`"),
        ("run p.tar --inputs x", "--inputs: `tvmake run` has no such option", "did you mean --input?"),
        ("run p.tar --pr", "--pr: `tvmake run` has no such option", "did you mean --preprocess or --print-top or --profile or --prompt-ids or --prompt?"),
        ("run p.tar --bogus", "--bogus: `tvmake run` has no such option", "see `tvmake run -h`"),
        ("run p.tar x y", "tvmake run: unexpected arguments: x y", "see `tvmake run -h`"),
        ("run", "tvmake run: package is missing", "package: A package.tar."),
        ("completion fsh", "shell fsh: expected one of bash, zsh, fish (got 'fsh')", "did you mean 'fish'?"),
        ("compile a.onnx --layout nchw", "--layout nchw: expected one of keep, NCHW, NHWC, auto (got 'nchw')", "did you mean 'NCHW'?"),
        ("make --notation {", "--notation: not a notation", "omit it"),
        ("make --notation [1]", "--notation: not a notation", "omit it"),
        ("net.onnx", "tvmake net.onnx: a command is missing", "`tvmake compile net.onnx` builds a package from it"),
        ("compile a.onnx --fp16", "--fp16: `tvmake compile` has no such option", "write --precision float16"),
        ("compile --onnx=a.onnx", "--onnx: `tvmake compile` has no such option", "name the model without an option: `tvmake compile"),
        ("compile a.onnx --target-host x", "--target-host: `tvmake compile` has no such option", "the host is part of the target: -t '{"),
        ("compile a.onnx cuda", "tvmake compile: unexpected arguments: cuda", "name a target with -t and a package with -o"),
        ("check a.yaml", "tvmake check: unexpected arguments: a.yaml", "name a config with -c: `tvmake check -c a.yaml`"),
        ("make -t cpu", "-t: `tvmake make` has no such option", "name results without an option: model/precision/target"),
        ("make --target=cpu", "--target=cpu: `tvmake make` has no such option", "name results without an option"),
        ("-c", "-c: `tvmake` has no such option", "see `tvmake -h`"),
        ("-c a.yaml make -n", "-c: `tvmake` has no such option", "options come after the command: `tvmake make -n -c a.yaml`"),
        ("--json records list", "--json: `tvmake` has no such option", "options come after the command: `tvmake records list --json`"),
        ("--bogus status", "--bogus: `tvmake` has no such option", "see `tvmake -h`"),
    ],
)  # fmt: skip
def test_a_mistyped_command_line_is_named_with_what_to_type(typed: str, wrong: str, remedy: str, capfd):
    assert run(typed.split()) == 2
    first, second = capfd.readouterr().err.splitlines()
    assert first == f"error: {wrong}"
    assert second.startswith(f"  {remedy}")


@pytest.mark.parametrize(
    ("typed", "usage", "options"),
    [
        ("compile", r"MODEL\b", ["--target TARGET", "--opt-level LEVEL", "--layout <keep|NCHW|NHWC|auto>"]),
        ("init", r"\[MODEL\]\.\.\.$", ["--output FILE"]),
        ("status", r"\[RESULTS\] \[VARIANT\]$", ["--config FILE", "--directory DIRECTORY"]),
    ],
)
def test_help_names_values_by_what_they_are(typed: str, usage: str, options: list[str], capfd):
    assert run([typed, "--help"]) == 0
    told = capfd.readouterr().out
    assert re.search(usage, told.splitlines()[0].rstrip("}"))
    assert "[[" not in told
    assert [option for option in options if option not in told] == []


@pytest.mark.parametrize("typed", ["", "records", "device"])
def test_a_group_without_a_command_prints_its_help(typed: str, capfd):
    assert run(typed.split()) == 2
    assert f"Usage: tvmake {typed}".strip() in capfd.readouterr().err


def test_help_and_version_are_not_errors(capfd):
    assert [run([word]) for word in ("--help", "--version")] == [0, 0]
    assert "Usage: tvmake" in capfd.readouterr().out


@pytest.mark.parametrize("typed", ["targets", "targets --json"])
def test_a_reader_that_goes_away_ends_a_command_quietly(typed: str):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from tvmake.cli import main; main()", *typed.split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=HANG_S)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
