"""The output for a failed job: the lines with the reason, and the logs to read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.engine.progress.cluster_errors import cluster_error
from tvmake.engine.progress.job_log import error_lines, failure_lines, log_lines
from tvmake.engine.progress.snakemake_errors import translate
from tvmake.errors import InputError, TvmakeError

_REFUSED = re.compile(r"^WorkflowError in file .*Snakefile.*:\n(.+)(?:\n(  (?!File ).+))?", re.MULTILINE)


_OF_A_KEY = re.compile(r"^( *error: )([a-z]+[.\[](?:(?!: ).)+): (.*)$", re.MULTILINE)
"""An error that may begin with a config key."""


@dataclass(frozen=True)
class Failure:
    """Why a job failed."""

    text: str
    """Lines to print, indented."""
    logs: tuple[str, ...]
    """Logs that the lines come from."""
    code: int | None = None
    """Exit code of the cause, if it is the cluster's."""


def failures(
    label: str, rule: str, message: str, logs: Sequence[str], clusters: Sequence[str], was_sent: bool = False
) -> list[Failure]:
    """Return why a job failed, or a group of jobs that was submitted to a cluster as one.

    Args:
        label: the job, as shown to the user.
        message: the executor's message.
        logs: the rules' logs.
        clusters: the cluster's logs of the job.
        was_sent: whether the job was to run on a cluster.
    """
    cause = cluster_error(label, rule, message, [Path(log) for log in clusters]) if message or clusters else None
    if cause is not None:
        return [Failure(_indent(f"error: {cause}".splitlines()), tuple(clusters), cause.exit_code)]
    if was_sent and not clusters and not any(log_lines(Path(log)) for log in logs):
        problem = f"error: {label}: the cluster did not accept it, or stopped it before it wrote a log"
        return [
            Failure(
                _indent([problem, "  its commands may have printed the reason above; see docs/guides/slurm.md"]),
                (),
                3,
            )
        ]
    if not clusters:
        return [Failure(_indent(failure_lines(Path(log))), (log,)) for log in logs]
    # A job that ended before its rule leaves logs of earlier runs: only logs with an error count.
    causes = [(log, lines) for log in logs if (lines := error_lines(Path(log)))]
    causes = causes or [(log, _of_snakemake(Path(log))) for log in clusters]
    return [Failure(_indent(lines), (log,)) for log, lines in causes]


def with_positions(text: str, named: Callable[[TvmakeError], TvmakeError]) -> str:
    """Add the positions of config keys to errors that begin with a key."""

    def locate(match: re.Match[str]) -> str:
        return match[1] + str(named(InputError(match[2], match[3])))

    return _OF_A_KEY.sub(locate, text)


def _of_snakemake(log: Path) -> list[str]:
    """The error in a cluster's log, which Snakemake wrote on the node."""
    text = "\n".join(log_lines(log) or [])
    # Errors that the Snakefile itself raises.
    if refused := _REFUSED.search(text):
        return [f"error: {refused[1]}", *(f"  {line.strip()}" for line in refused.groups()[1:] if line)]
    error = translate(text)
    return f"error: {error}".splitlines() if error else failure_lines(log)


def _indent(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
