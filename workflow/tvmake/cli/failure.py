"""What to show of a failed job: the lines that say why, and where to read on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.cli.cluster_errors import cluster_error
from tvmake.cli.snakemake_errors import translated

TAIL = 12
"""Lines of a log to show when it names no error itself."""

CLOCKS_DIFFER_S = 60.0

SILENT = "error: it ended without a word: killed from outside, or out of memory"


_REFUSED = re.compile(r"^WorkflowError in file .*Snakefile.*:\n(.+)(?:\n(  (?!File ).+))?", re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """Why a job failed."""

    text: str
    """Lines to print, indented."""
    logs: tuple[str, ...]
    """Where they come from."""
    code: int | None = None
    """The exit code that goes with the reason, where it is the cluster's."""


def failures(
    label: str, rule: str, said: str, own: Sequence[str], clusters: Sequence[str], was_sent: bool = False
) -> list[Failure]:
    """Why a job, or a group of jobs that went to a cluster as one, failed.

    Args:
        label: the job, as the user knows it.
        said: the executor's words.
        own: the logs of the rules.
        clusters: the cluster's logs of the job.
        was_sent: whether the job was to run on a cluster.
    """
    cause = cluster_error(label, rule, said, [Path(log) for log in clusters]) if said or clusters else None
    if cause is not None:
        return [Failure(_indented(f"error: {cause}".splitlines()), tuple(clusters), cause.exit_code)]
    if was_sent and not clusters and not any(_lines(Path(log)) for log in own):
        problem = f"error: {label}: the cluster did not take it, or ended it before it wrote a log"
        return [
            Failure(_indented([problem, "  its commands may have printed why above; docs/slurm.md has more"]), (), 3)
        ]
    if not clusters:
        return [Failure(_indented(telling_lines(Path(log))), (log,)) for log in own]
    # A job that ended before its rule did leaves logs of earlier runs: only those that name an error count.
    told = [(log, lines) for log in own if (lines := error_lines(Path(log)))]
    told = told or [(log, _of_snakemake(Path(log))) for log in clusters]
    return [Failure(_indented(lines), (log,)) for log, lines in told]


def written_since(log: Path, moment: float) -> bool:
    """Whether a log is of this run; clocks of a network file system may differ by a minute."""
    try:
        return log.stat().st_mtime >= moment - CLOCKS_DIFFER_S
    except OSError:
        return False


def telling_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a job's log with their remedies, or the log's end when it has none."""
    lines = _lines(log)
    if lines is None:
        return ["(no log was written)"]
    return error_lines(log) or lines[-TAIL:] or [SILENT]


def error_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a log with their remedies."""
    lines = _lines(log) or []
    telling: list[str] = []
    for start in (index for index, line in enumerate(lines) if line.startswith("error: ")):
        telling.append(lines[start])
        for line in lines[start + 1 :]:
            if not line.startswith("  "):
                break
            telling.append(line)
    return telling


def _of_snakemake(log: Path) -> list[str]:
    """What a cluster's log says, which is that of the Snakemake that ran the job there."""
    text = "\n".join(_lines(log) or [])
    # What the Snakefile itself refuses, in its own words.
    if refused := _REFUSED.search(text):
        return [f"error: {refused[1]}", *(f"  {line.strip()}" for line in refused.groups()[1:] if line)]
    error = translated(text)
    return f"error: {error}".splitlines() if error else telling_lines(log)


def _lines(log: Path) -> list[str] | None:
    try:
        return log.read_text(errors="replace").splitlines()
    except OSError:
        return None


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
