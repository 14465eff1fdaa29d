"""A killed choice of precisions resumes with its results, makes the same choice, and trusts nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANG_S, wait_until
from tests.process import shared
from tests.stages.test_choose_precision import Choosing
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.benchmark.precision_choice import PrecisionChoice
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.config.target import TargetConfig
from tvmake.config.validation import Goals
from tvmake.device.local.device import LocalDevice
from tvmake.process.forkserver.client import DIRECTORY
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages.choices.precision_search.kept import FILE, Kept, choices_root, key_of
from tvmake.stages.choices.precision_search.trials import Workbench
from tvmake.storage.directories import HOME_VARIABLE
from tvmake.transform.options import TransformOptions, UserPass

ROOT = Path(__file__).resolve().parents[2]

GOALS = {"sqnr_db": 10.0}

RUN = f"""
import sys
from pathlib import Path
from tests.process import shared
from tests.stages.test_choose_precision import Choosing
Choosing(Path(sys.argv[1])).run(**{GOALS})
"""

ENDED_BEFORE_IT_IS_SAVED = (
    """
import os, signal
from tvmake.artifact import stage_json
from tvmake.benchmark.precision_choice import PrecisionChoice
real = stage_json.save
def save(value, destination):
    if isinstance(value, PrecisionChoice):
        real(value, destination.with_name("chosen.json"))
        os.kill(os.getpid(), signal.SIGKILL)
    real(value, destination)
stage_json.save = save
"""
    + RUN
)


@dataclass
class Seen:
    """Counters of a run in this process."""

    builds: int = 0
    executions: int = 0
    added: list[str] = field(default_factory=list)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    counts = Seen()

    def counting(kind: type, name: str, note: Callable[..., None]) -> None:
        real = getattr(kind, name)

        def noted(*arguments: Any, **others: Any) -> Any:
            note(*arguments)
            return real(*arguments, **others)

        monkeypatch.setattr(kind, name, noted)

    def build(*_: Any) -> None:
        counts.builds += 1

    def execute(*_: Any) -> None:
        counts.executions += 1

    counting(Workbench, "_build_isolated", build)
    counting(LocalDevice, "execute", execute)
    counting(Kept, "add", lambda _, found, *subject: counts.added.append(json.dumps(subject, sort_keys=True)))
    return counts


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv(DIRECTORY, shared.directory())


@contextmanager
def started(script: str, directory: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that runs the script in a directory and keeps its results there; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(directory)],
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, HOME_VARIABLE: str(directory / "home"), DIRECTORY: shared.directory()},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANG_S)


def kept_file() -> Path | None:
    return next(iter(choices_root().glob(f"*/content/{FILE}")), None)


def lines() -> list[bytes]:
    file = kept_file()
    return file.read_bytes().split(b"\n")[:-1] if file else []


def subjects() -> list[str]:
    return [json.dumps(json.loads(line.partition(b" ")[2])[0], sort_keys=True) for line in lines()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a choice that was killed just before it was saved."""
    directory = tmp_path_factory.mktemp("killed")
    with started(ENDED_BEFORE_IT_IS_SAVED, directory) as process:
        assert process.wait(HANG_S) == -signal.SIGKILL
    return directory


@pytest.fixture
def interrupted(killed: Path, tmp_path: Path) -> tuple[Choosing, PrecisionChoice]:
    """A copy of the choice that was killed, and the choice of an undisturbed run."""
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    choosing = Choosing(tmp_path)
    chosen = PrecisionChoice.model_validate_json((tmp_path / "out/chosen.json").read_text())
    assert not (tmp_path / "out/precision.json").exists()
    return choosing, chosen


@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.soak), pytest.param(5, marks=pytest.mark.soak), 12]
)
def test_a_killed_choice_measures_only_missing_results(seen, tmp_path, after):
    with started(RUN, tmp_path) as process:
        wait_until(lambda: len(lines()) >= after or process.poll() is not None)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
    before = subjects()
    choice = Choosing(tmp_path).run(**GOALS)
    assert set(before).isdisjoint(seen.added)
    builds = [subject for subject in [*before, *seen.added] if subject.startswith('["built"')]
    assert len(builds) == len(set(builds))
    assert seen.builds == len([subject for subject in seen.added if subject.startswith('["built"')])
    assert choice.because
    assert list(choices_root().iterdir()) == []


def test_a_choice_that_was_measured_and_not_saved_measures_nothing_and_is_the_same(interrupted, seen):
    choosing, chosen = interrupted
    assert choosing.run(**GOALS) == chosen
    assert (seen.builds, seen.executions, seen.added) == (0, 0, [])


def test_a_package_that_is_damaged_is_built_again(interrupted, seen):
    choosing, chosen = interrupted
    file = kept_file()
    assert file is not None
    package = sorted(file.parent.glob("*.tar"))[0]
    package.write_bytes(package.read_bytes()[:-100])
    assert choosing.run(**GOALS) == chosen
    assert seen.builds == 1
    assert seen.executions == 0


@pytest.mark.long
def test_figures_that_are_damaged_are_measured_again(interrupted, seen):
    choosing, _ = interrupted
    file = kept_file()
    assert file is not None
    whole = file.read_bytes().split(b"\n")
    (index,) = [number for number, line in enumerate(whole) if b'["judged"' in line][:1]
    lost = json.dumps(json.loads(whole[index].partition(b" ")[2])[0], sort_keys=True)
    whole[index] = whole[index].replace(b'"sqnr_db":', b'"sqnr_db":1', 1)
    file.write_bytes(b"\n".join(whole))
    choosing.run(**GOALS)
    assert seen.added == [lost]
    assert (seen.builds, seen.executions) == (0, 1)


@pytest.mark.long
def test_other_goals_measure_everything(interrupted, seen):
    choosing, _ = interrupted
    choosing.run(sqnr_db=11.0)
    assert seen.builds > 0
    assert len([subject for subject in seen.added if subject.startswith('["round"')]) >= 3


def test_a_line_that_is_damaged_anywhere_says_nothing(tmp_path):
    kept = Kept(tmp_path)
    for number in range(3):
        kept.add({"a": number}, "round", number)
    content = (tmp_path / FILE).read_bytes()
    for index in range(len(content)):
        for damaged in (content[:index], content[:index] + bytes([content[index] ^ 4]) + content[index + 1 :]):
            (tmp_path / FILE).write_bytes(damaged)
            found = Kept(tmp_path)
            assert all(found.find("round", number) in (None, {"a": number}) for number in range(3))
            assert found.count >= 1 or damaged is content[:index] or index < len(content) // 3 * 2


def test_what_a_killed_writer_left_hides_nothing_that_is_written_later(tmp_path):
    Kept(tmp_path).add(1, "a")
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"half of a line")
    Kept(tmp_path).add(2, "b")
    kept = Kept(tmp_path)
    assert (kept.find("a"), kept.find("b")) == (1, 2)


def test_findings_that_cannot_be_written_are_a_warning(tmp_path, capsys):
    (tmp_path / "gone").mkdir()
    kept = Kept(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    kept.add(1, "a")
    kept.add(2, "b")
    assert (kept.find("a"), kept.find("b")) == (1, 2)
    assert capsys.readouterr().err.count("are lost if this run is interrupted") == 1


def request(**changes: Any) -> ChoosePrecisionRequest:
    known: dict[str, Any] = {
        "model": "net",
        "precision": PrecisionConfig(base="auto"),
        "among": ["float32", "int8"],
        "build": BuildRequest(model="net", precision="auto", target_name="cpu", target=TargetConfig(kind="llvm")),
    }
    return ChoosePrecisionRequest(**{**known, **changes})


DEVICE = Fingerprint(kind="cpu", soc="a", cores=2, memory_bytes=1, os="b", runtime="c")


def test_another_network_device_config_code_or_pass_has_another_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1")
    second.write_text("2")
    passes = TransformOptions(passes=[UserPass(use="mine:change", at="after_precision")])
    (tmp_path / "mine.py").write_text("a = 1")
    keys = [
        key_of(request(), [first], "code", DEVICE),
        key_of(request(), [second], "code", DEVICE),
        key_of(request(), [first, None], "code", DEVICE),
        key_of(request(), [first], "other", DEVICE),
        key_of(request(), [first], "code", DEVICE.model_copy(update={"details": {"governor": "powersave"}})),
        key_of(request(goals=Goals(sqnr_db=3.0)), [first], "code", DEVICE),
        key_of(request(among=["float32", "float16"]), [first], "code", DEVICE),
        key_of(request(transform=passes), [first], "code", DEVICE),
    ]
    (tmp_path / "mine.py").write_text("a = 2")
    keys.append(key_of(request(transform=passes), [first], "code", DEVICE))
    assert len(set(keys)) == len(keys)
    assert key_of(request(), [first], "code", DEVICE) == keys[0]
