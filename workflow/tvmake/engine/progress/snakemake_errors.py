"""Translate Snakemake's errors: where, what, remedy."""

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from tvmake.engine.run_mutex import locked_error
from tvmake.errors import KINDS, MachineError, TvmakeError, UsageError
from tvmake.storage.permissions import DENIED
from tvmake.storage.refusals import system_error

Translation = Callable[[re.Match[str]], TvmakeError]


def _tvmake_error(match: re.Match[str]) -> TvmakeError:
    where, _, problem = match[2].partition(": ")
    return KINDS[match[1]](where, problem, match[3])


def _system(match: re.Match[str]) -> TvmakeError:
    number, reason, file = match.groups()
    is_of_project = Path(file or "").absolute().is_relative_to(Path.cwd())
    known = system_error(int(number), file or "a file of Snakemake")
    if known is not None and (is_of_project or int(number) not in DENIED):
        return known
    # Snakemake keeps sources in the user's cache.
    alternative = (
        "use --directory" if is_of_project else "set XDG_CACHE_HOME and TVMAKE_HOME to directories that you own"
    )
    return MachineError(file or "", f"cannot be used ({reason})", f"check its owner and mode, or {alternative}")


TRANSLATIONS: tuple[tuple[re.Pattern[str], Translation], ...] = (
    # Raised by tvmake in the Snakefile. Snakemake shows the origin, the error's lines and a trace.
    (re.compile(rf"^({'|'.join(KINDS)}) in file .*:\n(.+)\n(?:  (?!File )(.+)\n)?"), _tvmake_error),
    (re.compile(r"Directory cannot be locked"), lambda _: locked_error()),
    (
        re.compile(r"No rule to produce (\S+)|Target rule (\S+) does not exist"),
        lambda match: UsageError(
            match[1] or match[2], "no job makes this", "`tvmake check --files` lists the files that can be made"
        ),
    ),
    (
        re.compile(r"Write-protected output files[^\n]*\n(?:.*\n)*? *affected files:\n *(\S.*)"),
        lambda match: MachineError(
            match[1],
            "must be rebuilt, but you cannot write to it",
            "change its owner or mode (chown, chmod u+w), or remove it",
        ),
    ),
    (
        re.compile(r"Missing files after (\d+) seconds[^\n]*\n(.+?) \(missing locally"),
        lambda match: MachineError(
            match[2],
            "is missing although its job made it: files were deleted or moved during the run, or a shared disk is slow to show them",
            f"run again while nothing else changes these directories; on a shared disk wait longer: --latency-wait {4 * int(match[1])}",
        ),
    ),
    (
        re.compile(r"Error loading Snakemake plugin (\S+): The package (\S+) is not installed"),
        lambda match: MachineError(f"plugin '{match[1]}'", "is not installed", f"pip install {match[2]}"),
    ),
    (
        re.compile(r"Error recording metadata for finished job \(\[Errno (\d+)\] ([^)\n]+)()\)"),
        _system,
    ),
    (
        re.compile(r"\bMemoryError\b|failed to map segment|[Cc]annot allocate memory"),
        lambda _: MachineError(
            "tvmake make", "not enough memory", "close other programs, or raise the limit: ulimit -v"
        ),
    ),
    (
        re.compile(
            r"(?:OSError|PermissionError|FileNotFoundError|NotADirectoryError): \[Errno (\d+)\] ([^:\n]+)(?:: '([^'\n]*)')?"
        ),
        _system,
    ),
)


def translate(text: str) -> TvmakeError | None:
    """Translate a message of Snakemake's; None if it is unknown."""
    for pattern, translation in TRANSLATIONS:
        if match := pattern.search(text):
            return translation(match)
    return None


def start_error(text: str) -> TvmakeError:
    """The error of a message before the first job, which no translation knows: what Snakemake says, in one line."""
    lines = [line.strip() for line in text.removeprefix("Error: ").splitlines() if line.strip()]
    return UsageError("snakemake", " ".join(lines), "see `tvmake make -h`, `snakemake -h`")


EXECUTORS = {
    "slurm": "pip install 'tvmake[slurm]'",
    "lsf": "pip install 'tvmake[lsf]'",
    "cluster-generic": "pip install 'tvmake[cluster]'",
}
"""How to install the executors of the provided profiles; others are `snakemake-executor-plugin-NAME`."""


def bad_option(error: Exception, arguments: Sequence[str]) -> UsageError:
    """The error of an invalid value. Snakemake does not say which option has it.

    Args:
        arguments: all options, the user's before ``--snakefile``.
    """
    options = [
        word.partition("=")[0] for word in takewhile(lambda word: word != "--snakefile", arguments) if word[:1] == "-"
    ]
    problem = f"an option has an invalid value: {' '.join(str(error).split())}"
    return UsageError(
        "tvmake make", problem, f"check {', '.join(options) or 'the profile'}; `snakemake -h` lists the formats"
    )


def usage_error(printed: str) -> TvmakeError:
    """argparse's error about Snakemake's options, without the usage text."""
    lines = [match[1] for line in printed.splitlines() if (match := re.match(r"(?:.*: error|Error): (.+)", line))]
    if file := re.search(r"Couldn't parse config file: (?:.*\n)*? *in \"(.+)\", line (\d+)", printed):
        return UsageError(f"{file[1]}:{file[2]}", "is not YAML", "correct the profile")
    problem = lines[-1] if lines else "invalid options"
    if executor := re.match(r"argument --executor/-e: invalid choice: '([\w-]+)'", problem):
        name = executor[1]
        install = EXECUTORS.get(name, f"pip install snakemake-executor-plugin-{name}")
        return MachineError(f"executor '{name}'", "its Snakemake plugin is not installed", install)
    return UsageError("tvmake make", problem, "see `tvmake make -h`, `snakemake -h`")
