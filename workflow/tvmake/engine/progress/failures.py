"""What to show of a failed job: the lines that say why, and where to read on."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.engine.progress.cluster_errors import cluster_error
from tvmake.engine.progress.job_log import error_lines, log_lines, telling_lines
from tvmake.engine.progress.snakemake_errors import translated
from tvmake.errors import InputError, TvmakeError

_REFUSED = re.compile(r"^WorkflowError in file .*Snakefile.*:\n(.+)(?:\n(  (?!File ).+))?", re.MULTILINE)


_OF_A_KEY = re.compile(r"^( *error: )([a-z]+[.\[](?:(?!: ).)+): (.*)$", re.MULTILINE)
"""An error that may begin with a key of the config."""


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
    label: str, rule: str, message: str, logs: Sequence[str], clusters: Sequence[str], was_sent: bool = False
) -> list[Failure]:
    """Why a job, or a group of jobs that went to a cluster as one, failed.

    Args:
        label: the job, as the user knows it.
        message: the executor's own.
        logs: those of the rules.
        clusters: the cluster's logs of the job.
        was_sent: whether the job was to run on a cluster.
    """
    cause = cluster_error(label, rule, message, [Path(log) for log in clusters]) if message or clusters else None
    if cause is not None:
        return [Failure(_indented(f"error: {cause}".splitlines()), tuple(clusters), cause.exit_code)]
    if was_sent and not clusters and not any(log_lines(Path(log)) for log in logs):
        problem = f"error: {label}: the cluster did not take it, or ended it before it wrote a log"
        return [
            Failure(
                _indented([problem, "  its commands may have printed why above; docs/guides/slurm.md has more"]), (), 3
            )
        ]
    if not clusters:
        return [Failure(_indented(telling_lines(Path(log))), (log,)) for log in logs]
    # A job that ended before its rule did leaves logs of earlier runs: only those that name an error count.
    found = [(log, lines) for log in logs if (lines := error_lines(Path(log)))]
    found = found or [(log, _of_snakemake(Path(log))) for log in clusters]
    return [Failure(_indented(lines), (log,)) for log, lines in found]


def with_places(text: str, named: Callable[[TvmakeError], TvmakeError]) -> str:
    """A failure's text, whose errors name where the key of the config stands that they begin with."""

    def placed(found: re.Match[str]) -> str:
        return found[1] + str(named(InputError(found[2], found[3])))

    return _OF_A_KEY.sub(placed, text)


def _of_snakemake(log: Path) -> list[str]:
    """What a cluster's log says, which is that of the Snakemake that ran the job there."""
    text = "\n".join(log_lines(log) or [])
    # What the Snakefile itself refuses, in its own words.
    if refused := _REFUSED.search(text):
        return [f"error: {refused[1]}", *(f"  {line.strip()}" for line in refused.groups()[1:] if line)]
    error = translated(text)
    return f"error: {error}".splitlines() if error else telling_lines(log)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
