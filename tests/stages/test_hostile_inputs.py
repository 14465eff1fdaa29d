"""benchmarks/hostile_inputs.py: some of its inputs, and whether it detects violations."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


FILES = ("onnx", "pt2", "tflite", "packages", "bundles", "records", "cache", "locks")
QUICK = ("configs", "images", "arrays", "tracker")
EACH_TIME = ("onnx", "configs", "arrays")
"""Kinds of files that each run of the tests damages."""

WHOLE_RUNS = ("states", "intermediates", "server", "runs", "summaries")


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        (EACH_TIME, 1),
        pytest.param(FILES, 40, marks=pytest.mark.soak),
        pytest.param(QUICK, 40, marks=pytest.mark.soak),
        pytest.param(WHOLE_RUNS, 8, marks=pytest.mark.soak),
    ],
    ids=["one of some kinds", "files", "quick ones", "whole runs"],
)
def test_hostile_files_are_refused_in_one_line_or_accepted_and_right(
    tmp_path: Path, kinds: tuple[str, ...], count: int
):
    command = [
        sys.executable,
        str(BENCHMARKS / "hostile_inputs.py"),
        "--count",
        str(count),
        "--seed",
        "20",
        "--jobs",
        "1",  # each job loads the libraries and creates the damaged files itself
    ]
    done = subprocess.run(
        [*command, "--kinds", *kinds], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"bad": 0' in done.stdout.splitlines()[-1]


class Pretended:
    """A kind whose commands do what a test specifies."""

    preload = ()

    def __init__(self, command, problem=None, must_go_on=False):
        self.command, self.problem, self.must_go_on = command, problem, must_go_on

    def prepare(self, samples: Path) -> None:
        pass

    def case(self, _samples: Path, _directory: Path, _chance):
        from hostile.cases import Case

        return Case("pretended", [self.command], lambda: self.problem, must_go_on=self.must_go_on)


def refuse(text: str):
    def command() -> int:
        print(text, file=sys.stderr)
        return 1

    return command


def crash() -> int:
    import os

    os.abort()


def code_that_runs() -> int:
    Path("it_ran").mkdir()
    return 1


def outside() -> int:
    Path("../outside/file").touch()
    return 0


@pytest.mark.parametrize(
    ("command", "problem", "result"),
    [
        (refuse("error: a.file: is damaged"), None, "refused"),
        (refuse("something went wrong"), None, "unclear"),
        (refuse("Traceback (most recent call last):\nerror: a.file: is damaged"), None, "traceback"),
        (refuse("error: a.file: ValueError\n  this is a defect of tvmake"), None, "traceback"),
        (crash, None, "crash"),
        (code_that_runs, None, "ran"),
        (outside, None, "outside"),
        (lambda: 0, None, "accepted"),
        (lambda: 0, "other bytes", "wrong"),
        (lambda: len(bytearray(1500 << 20)) and 0, None, "memory"),
    ],
)
def test_what_must_not_be_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command, problem, result: str):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from hostile.running import play

    assert play(Pretended(command, problem), tmp_path, tmp_path / "place", "0").result == result


def test_a_refusal_is_wrong_where_nothing_of_the_users_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from hostile.running import play

    kind = Pretended(refuse("error: a.file: is damaged"), must_go_on=True)
    assert play(kind, tmp_path, tmp_path / "place", "0").result == "wrong"
