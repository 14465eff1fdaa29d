"""One round: copy the finished project, remove results, cause faults, repeat the command, check what remains."""

import os
import random
import shutil
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from killing import orphans, record_lines

from faults.checks import differences, look, made_anew
from faults.disturbed import Disturbed
from faults.drain import DRAIN
from faults.kinds import BEFORE, FAULTS, MEANWHILE
from faults.project import LIMIT_S, TUNED, FaultyProject, References
from tvmake.artifact.paths import HISTORY
from tvmake.errors import InputError

STAGES: dict[str, tuple[str, ...]] = {
    "import": ("digits/model.*", "digits/source.json", "digits/signature.json"),
    "transform": ("digits/float32/module.*", "digits/float32/signature.json"),
    "tune": ("tuning",),
    "pick_best": ("digits/float32/tuned/best.json",),
    "build": ("digits/float32/*/mod.*",),
    "export": ("digits/float32/*/package.*",),
    "validate": ("digits/float32/*/numerics.json",),
    "report": ("summary.json",),
}
"""What is removed at the start of a round: a stage's results and all that come after it."""

ATTEMPTS = 4
"""Times that the command is given without a fault going on; once is the rule."""

MORE_TRIALS = 0.2
"""The part of rounds that measure more than the undisturbed project."""


@dataclass
class Round:
    """What happened, and what was found."""

    number: int
    faults: list[str]
    removed_from: str
    new_weights: bool
    more_trials: int
    code: int = 0
    """What the disturbed run ended with."""
    reruns: int = 0
    """Times that the command was given after the disturbed run."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Setting:
    """What all rounds have in common."""

    seed: int
    kinds: Sequence[str]
    """The faults to choose from."""
    references: References
    library: Path
    """late_names.c, compiled."""
    evidence: Path
    """Gets a directory for each round that finds something."""


def play(number: int, setting: Setting) -> Round:
    """One round in a directory of its own; a failing one leaves its directory behind as evidence."""
    rng = random.Random(f"{setting.seed} {number}")
    count = min(len(setting.kinds), rng.choice((1, 2)))
    faults = sorted(rng.sample(list(setting.kinds), count), key=FAULTS.index)
    if DRAIN in faults:  # by itself: jobs on a cluster outlive whoever sent them
        faults = [DRAIN]
    new_weights, more = rng.random() < 0.5, rng.choice((1, 2)) if rng.random() < MORE_TRIALS else 0
    played = Round(number, faults, rng.choice(list(STAGES)), new_weights, more)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tvmake-fault-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary) / "workspace"
        shutil.copytree(setting.references.workspace, directory, symlinks=True)
        project = FaultyProject(directory)
        with _unmounted(project):
            try:
                _play(played, project, rng, setting)
            except Exception:  # noqa: BLE001  # whatever it is, the other rounds are played
                played.problems.append(f"the round broke off: {traceback.format_exc()[-2000:]}")
            if played.problems:
                kept = setting.evidence / f"seed-{setting.seed}-round-{number}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(directory, kept, symlinks=True, ignore=_sockets)
                (kept / "problems.txt").write_text("\n\n".join([*played.notes, *played.problems]) + "\n")
    played.seconds = round(time.monotonic() - began, 1)
    return played


def _sockets(directory: str, names: list[str]) -> list[str]:
    """Those of servers that are still there, which cannot be copied."""
    return [name for name in names if Path(directory, name).is_socket()]


@contextmanager
def _unmounted(project: FaultyProject) -> Iterator[None]:
    """Nothing stays mounted behind the block."""
    try:
        yield
    finally:
        while os.path.ismount(project.results):  # Path.is_mount misses none of ours either, but follows links
            subprocess.run(["umount", "-l", project.results], check=True)


def _play(played: Round, project: FaultyProject, rng: random.Random, setting: Setting) -> None:
    _prepare(played, project, rng, setting.references)
    seen = record_lines(project.home / "records")
    at = Disturbed(project, rng, setting.library, longest_s=rng.choice((3.0, 8.0, 15.0, 25.0)))
    others = _disturb(played, at, seen)
    while not played.problems:
        played.reruns += 1
        if project.make().returncode == 0:
            break
        if played.reruns == ATTEMPTS:
            played.problems.append(f"failed {ATTEMPTS} times without a fault: {project.said()[-1500:]}")
    for one in (project, *others):
        if "Traceback" in (said := one.said()):
            played.problems.append(f"a traceback: {said[max(0, said.index('Traceback') - 500) :][:1500]}")
    played.problems += [f"a process is left: {orphan}" for orphan in orphans(project.mark)]
    if not played.problems:
        for other in others:
            wrong = differences(other.fixed(), _wanted(played, other, setting.references))
            played.problems += [f"in the other directory: {one}" for one in wrong]
        still = [path for path, data in at.altered.items() if path.is_file() and path.read_bytes() == data]
        refused = [path for path in still if _is_refused(project, path)]
        played.problems += [
            f"{path.relative_to(project.results)} is still altered" for path in still if path not in refused
        ]
        played.problems += look(project, seen, _wanted(played, project, setting.references), refused)


def _is_refused(project: FaultyProject, path: Path) -> bool:
    """Whether a result of an earlier run is not rebuilt and no command shows its figures."""
    if path.parent != project.results / HISTORY:
        return False
    done = project.command("diff", str(path), str(project.results))
    return done.returncode == InputError.exit_code and "not as the report left it" in done.stdout + done.stderr


def _prepare(played: Round, project: FaultyProject, rng: random.Random, references: References) -> None:
    """Take a finished project some steps back, and perhaps ask more of it."""
    for stage in list(STAGES)[list(STAGES).index(played.removed_from) :]:
        for pattern in STAGES[stage]:
            for path in project.results.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    if rng.random() < 0.3:
        shutil.rmtree(project.workspace / "cache")
    if played.more_trials:
        project.ask_for(played.more_trials)
    if played.new_weights:
        source = project.directory / "digits.onnx"
        times = source.stat()
        shutil.copy(references.weights[1], source)
        if rng.random() < 0.5:  # as `cp -p` and `rsync -a` do
            os.utime(source, (times.st_atime, times.st_mtime))


def _disturb(played: Round, at: Disturbed, seen: dict[str, set[bytes]]) -> list[FaultyProject]:
    """Run the command while the faults happen; returns further projects that were made meanwhile.

    Args:
        seen: gets the lines of records that are there.
    """
    project = at.project
    for name in played.faults:
        if name in BEFORE:
            BEFORE[name](at)
    run = project.start(*at.arguments, command=at.command)
    for name in played.faults:
        if name in MEANWHILE:
            MEANWHILE[name](at, run)
    try:
        played.code = run.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        played.problems.append("the disturbed run hangs")
        run.kill()
        played.code = run.wait()
    _add(seen, record_lines(project.home / "records"))
    # Warm servers are shared with the other run, and end with it.
    left = orphans(project.mark) if not at.others else []
    for undo in at.after:
        undo()
    for other, second in at.others:
        if second.wait(LIMIT_S) and other.make().returncode:
            played.problems.append(f"the run in another directory failed: {other.said()[-1500:]}")
        left += orphans(other.mark)
    _add(seen, record_lines(project.home / "records"))
    played.notes = at.notes
    played.problems += [*at.problems, *(f"a process is left: {one}" for one in left)]
    return [other for other, _ in at.others]


def _wanted(played: Round, project: FaultyProject, references: References) -> dict[str, bytes]:
    """What the project must have come to. Where more was measured, that follows from what was."""
    wanted = references.fixed[played.new_weights]
    if not played.more_trials:
        return wanted
    packaged = [name for name in wanted if name.startswith(f"{TUNED}/package.")]
    weights = references.weights[played.new_weights]
    return {**wanted, **made_anew(project, packaged, weights, played.more_trials)}


def _add(seen: dict[str, set[bytes]], now: Mapping[str, set[bytes]]) -> None:
    for path, lines in now.items():
        seen.setdefault(path, set()).update(lines)
