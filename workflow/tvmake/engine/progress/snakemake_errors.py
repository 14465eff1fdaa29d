"""Snakemake's own refusals in tvmake's words: where, what, what to do."""

import re
from collections.abc import Callable

from tvmake.errors import KINDS, MachineError, TvmakeError, UsageError
from tvmake.storage.files import NO_SPACE, no_space

Translation = Callable[[re.Match[str]], TvmakeError]


def _own(match: re.Match[str]) -> TvmakeError:
    where, _, problem = match[2].partition(": ")
    return KINDS[match[1]](where, problem, match[3])


def _system(match: re.Match[str]) -> TvmakeError:
    number, reason, file = match.groups()
    if int(number) in NO_SPACE:
        return no_space(file or "snakemake")
    return MachineError(file or "", f"cannot be used ({reason})", "check its owner and mode, or use --directory")


TRANSLATIONS: tuple[tuple[re.Pattern[str], Translation], ...] = (
    # Raised by tvmake in the Snakefile, and shown by Snakemake as its origin, the error's own lines and a trace.
    (re.compile(rf"^({'|'.join(KINDS)}) in file .*:\n(.+)\n(?:  (?!File )(.+)\n)?"), _own),
    (
        re.compile(r"Directory cannot be locked"),
        lambda _: MachineError(
            "snakemake",
            "another run is at work in this directory, or was killed in it",
            "wait for it; if there is none, remove its lock with `tvmake make --unlock`",
        ),
    ),
    (
        re.compile(r"No rule to produce (\S+)|Target rule (\S+) does not exist"),
        lambda match: UsageError(
            match[1] or match[2], "nothing makes this", "`tvmake check --files` lists the files that can be made"
        ),
    ),
    (
        re.compile(r"Error recording metadata for finished job \(\[Errno (\d+)\] ([^)\n]+)()\)"),
        _system,
    ),
    (re.compile(r"(?:OSError|PermissionError): \[Errno (\d+)\] ([^:\n]+)(?:: '([^'\n]*)')?"), _system),
)


def translated(text: str) -> TvmakeError | None:
    """A message of Snakemake's as an error of tvmake's; None for one that is not known."""
    for pattern, translation in TRANSLATIONS:
        if match := pattern.search(text):
            return translation(match)
    return None


EXECUTORS = {"slurm": "pip install 'tvmake[slurm]'"}
"""How the executors of packaged profiles are installed; the others as `snakemake-executor-plugin-NAME`."""


def usage_error(printed: str) -> TvmakeError:
    """What argparse prints when it refuses Snakemake's options, without its page of usage."""
    lines = [line.partition(": error: ")[2] for line in printed.splitlines() if ": error: " in line]
    problem = lines[-1] if lines else "wrong options"
    if executor := re.match(r"argument --executor/-e: invalid choice: '([\w-]+)'", problem):
        name = executor[1]
        install = EXECUTORS.get(name, f"pip install snakemake-executor-plugin-{name}")
        return MachineError(f"executor '{name}'", "its Snakemake plugin is not installed", install)
    return UsageError("tvmake make", problem, "see `tvmake make -h`, `snakemake -h`")
