"""Run a case's commands in a fork of this process, and report the results."""

import os
import random
import resource
import select
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tvmake.cli import run
from tvmake.process.fork import fork, signal_group
from tvmake.process.output import printable

from .cases import Case, Kind
from .mutate import MARK

HANG_S = 30.0
MEMORY_MB = 1024
"""More than this over what is loaded anyway is too much for a small file."""

GOOD = ("refused", "accepted")


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    result: str
    """refused or accepted; or what must not be: hang, memory, crash, traceback, unclear, wrong, outside, ran."""
    case: str
    detail: str
    wall_s: float
    peak_mb: int


def play(kind: Kind, samples: Path, root: Path, seed: str) -> Outcome:
    """Make the case of this seed in an empty directory, run it, and remove what it left if all is well."""
    shutil.rmtree(root, ignore_errors=True)
    directory = root / "case"
    for name in ("case", "home", "tmp", "outside"):
        (root / name).mkdir(parents=True)
    case = kind.case(samples, directory, random.Random(seed))
    before = _listing(root)
    base_mb = _anonymous_mb()
    began = time.monotonic()
    child = fork(lambda: _commands(case, root), leads="session")
    code, usage = _wait(child)
    wall = time.monotonic() - began
    output = (root / "output").read_text(errors="replace") if (root / "output").is_file() else ""
    peak = usage.ru_maxrss // 1024
    result, detail = _judged(case, root, code, output, peak - base_mb, before)
    return Outcome(result, case.what, detail, round(wall, 2), peak)


def _anonymous_mb() -> int:
    """Anonymous memory of this process in MiB. A fork starts with it, but without the mapped files' pages."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) // 1024


def _commands(case: Case, directory: Path) -> int:
    os.chdir(directory / "case")
    os.environ.update(TVMAKE_HOME=str(directory / "home"), TMPDIR=str(directory / "tmp"), HOME=str(directory / "home"))
    output = os.open(directory / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = open(1, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    for command in case.commands:
        if code := command() if callable(command) else run(list(command)):
            return code
    return 0


def _wait(child: int) -> tuple[int | None, resource.struct_rusage]:
    end = os.pidfd_open(child)
    try:
        in_time = select.select([end], [], [], HANG_S)[0]
    finally:
        os.close(end)
    if not in_time:
        signal_group(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    signal_group(child, signal.SIGKILL)
    return (os.waitstatus_to_exitcode(status) if in_time else None), usage


def _judged(
    case: Case, directory: Path, code: int | None, output: str, growth_mb: int, before: dict[str, tuple[int, int]]
) -> tuple[str, str]:
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    last = said[-1] if said else (output.strip().splitlines() or [""])[-1]
    if code is None:
        return "hang", f"over {HANG_S:g} s: {last[:200]}"
    if (directory / "case" / MARK).exists():
        return "ran", "code of the file ran"
    if touched := _touched(case, directory, before):
        return "outside", f"touched {touched}"
    if growth_mb > MEMORY_MB:
        return "memory", f"{growth_mb} MB: {last[:200]}"
    if code < 0:
        return "crash", f"ended with {signal.Signals(-code).name}: {last[:200]}"
    if "Traceback (most recent call last)" in output or "defect of tvmake" in output:
        return "traceback", last[:300]
    if code == 0:
        problem = case.wrong()
        return ("accepted", "") if problem is None else ("wrong", problem)
    if case.must_go_on:
        return "wrong", f"refused with code {code}: {last[:300]}"
    is_clear = 0 < len(said) <= case.most_errors and all(len(line) < 3000 and printable(line) == line for line in said)
    return ("refused", last[:200]) if is_clear else ("unclear", f"code {code}, {len(said)} errors: {last[:300]!r}")


def _touched(case: Case, directory: Path, before: dict[str, tuple[int, int]]) -> str | None:
    """A file that is new or changed, where nothing may be."""
    free = ("home/", "output", *(f"case/{name}" for name in case.may_write))
    after = _listing(directory)
    for name in sorted(after.keys() | before.keys()):
        if after.get(name) != before.get(name) and not name.startswith(free):
            return name
    return None


def _listing(directory: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in directory.rglob("*"):
        if not path.is_dir() or path.is_symlink():
            about = path.lstat()
            found[str(path.relative_to(directory))] = (about.st_size, about.st_mtime_ns)
        elif path.name == MARK:
            found[str(path.relative_to(directory))] = (0, 0)
    return found
