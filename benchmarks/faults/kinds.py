"""The faults, which change a project before ``tvmake make`` starts or while it is running."""

import base64
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from killing import processes

from faults.alter import alter_notes, alter_results
from faults.disturbed import Disturbed
from faults.drain import DRAIN, drain, through_slurm
from faults.project import FaultyProject

LATE_S = "1.5"
"""How late files are seen."""


def full_disk(at: Disturbed) -> None:
    """The results lie on a disk with room for a few more kilobytes; it has room again before the command is repeated."""
    results = at.project.results
    used = sum(path.stat().st_size // 4096 * 4 + 8 for path in results.rglob("*"))
    aside = at.project.workspace / "aside"
    results.rename(aside)
    results.mkdir()
    size = used + at.rng.choice((0, 40, 120, 250))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tvmake-faults", results], check=True)
    shutil.copytree(aside, results, dirs_exist_ok=True, symlinks=True)

    def room() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", results], check=True)

    at.after.append(room)


def clock_skew(at: Disturbed) -> None:
    """Some of the sources, results and Snakemake's notes have other times, by up to an hour."""
    project = at.project.directory
    files = [path for path in at.files(project) if at.rng.random() < 0.3]
    for path in files:
        known = path.stat()
        by = at.rng.uniform(-3600, 3600)
        with suppress(OSError):
            os.utime(path, (known.st_atime + by, known.st_mtime + by))
    at.notes.append(f"{len(files)} times moved")


def late_files(at: Disturbed) -> None:
    """Processes see each other's files late (tests/workflow/late_names.c)."""
    notes = at.project.workspace / "late"
    notes.mkdir()
    at.project.disturbances = {
        "LD_PRELOAD": str(at.library),
        "LATE_S": LATE_S,
        "LATE_ROOTS": f"{at.project.results}:{at.project.home}",
        "LATE_NOTES": str(notes),
    }
    # As the profiles for clusters say.
    at.arguments += ["--latency-wait", "30"]
    at.after.append(at.project.disturbances.clear)


def second_elsewhere(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """A second ``tvmake make`` in another directory, with the same records and the same cache."""
    other = FaultyProject(at.project.workspace, "other")
    other.directory.mkdir()
    for name in ("digits.onnx", "digits-test.npz", "tvmake.yaml"):
        shutil.copy(at.project.directory / name, other.directory)
    at.others.append((other, other.start()))


def second_here(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """A second ``tvmake make`` in the same directory: refused in two lines, or the first has ended."""
    if at.at_some_time(run):
        second = at.project.run("tvmake", "make")
        refused = second.returncode == 3 and second.stderr.count("\n") == 2 and "running here" in second.stderr
        if not refused and run.poll() is None:
            at.problems.append(f"a second run was not refused ({second.returncode}): {second.stderr[-300:]}")


def remove_result(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """A file of the results is gone."""
    if at.at_some_time(run) and (files := at.files(at.project.results)):
        gone = at.rng.choice(files)
        gone.unlink(missing_ok=True)
        at.notes.append(f"removed {gone.relative_to(at.project.results)}")


def kill_job(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of one of the processes that ``tvmake make`` started."""
    if at.at_some_time(run) and (pids := sorted(set(processes(at.project.mark)) - {run.pid})):
        with suppress(ProcessLookupError):
            os.kill(at.rng.choice(pids), signal.SIGKILL)


def kill_controller(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of ``tvmake make`` alone."""
    if at.at_some_time(run):
        run.kill()


def kill_everything(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of all at once, as when the power goes."""
    if at.at_some_time(run):
        for pid in processes(at.project.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def terminate(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGTERM of ``tvmake make``."""
    if at.at_some_time(run):
        run.terminate()


def cut_short(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """All is killed, and a result of an unfinished job is half there."""
    kill_everything(at, run)
    run.wait()
    marks = sorted((at.project.directory / ".snakemake" / "incomplete").rglob("*"))
    unfinished = [path for mark in marks if mark.is_file() and (path := _marked(at.project, mark))]
    if unfinished:
        path = at.rng.choice(unfinished)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((path.read_bytes() if path.is_file() else b'{"schema_version": 1, ')[:100])
        at.notes.append(f"cut {path.relative_to(at.project.results)}")


def _marked(project: FaultyProject, mark: Path) -> Path | None:
    """The file that a mark of Snakemake's names; of directories none."""
    root = project.directory / ".snakemake" / "incomplete"
    coded = "".join(part.removeprefix("@") for part in mark.relative_to(root).parts)
    try:
        named = project.directory / base64.b64decode(coded, altchars=b"_-").decode()
    except ValueError:
        return None
    return None if named.is_dir() or not named.suffix else named


BEFORE: dict[str, Callable[[Disturbed], None]] = {
    "altered-results": alter_results,
    "damaged-notes": alter_notes,
    "full-disk": full_disk,
    "clock-skew": clock_skew,
    "late-files": late_files,
    DRAIN: through_slurm,
}
MEANWHILE: dict[str, Callable[[Disturbed, subprocess.Popen[str]], None]] = {
    "second-elsewhere": second_elsewhere,
    "second-here": second_here,
    "remove-result": remove_result,
    "kill-job": kill_job,
    "kill-controller": kill_controller,
    "kill-everything": kill_everything,
    "terminate": terminate,
    "cut-short": cut_short,
    DRAIN: drain,
}
FAULTS = tuple(dict.fromkeys((*BEFORE, *MEANWHILE)))
"""In the order in which those of one round happen."""
