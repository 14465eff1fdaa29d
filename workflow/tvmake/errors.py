"""The exceptions a user meets: what is wrong, where, and what to do about it.

Every stage raises one of these for a mistake that is not tvmake's own. The command line prints
``error: where: problem`` and the remedy on the next line, and exits with ``exit_code``.
"""

import re
import sys
from collections.abc import Sequence


class TvmakeError(Exception):
    """A failure with a cause a user can act on.

    Args:
        where: the file, config key, device or stage concerned, as the user wrote it.
        problem: one line that says what is wrong.
        remedy: one line that says what to do next, when there is something to do.
    """

    exit_code = 1

    def __init__(self, where: str, problem: str, remedy: str | None = None):
        super().__init__(where, problem, remedy)
        self.where = str(where)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        where = self.where.replace("\n", r"\n")  # a file's name may have one, and an error is one line
        line = f"{where}: {self.problem}" if where else self.problem
        return f"{line}\n  {self.remedy}" if self.remedy else line


class InputError(TvmakeError):
    """A config, model, dataset, record or package that cannot be used as it is."""

    exit_code = 1


class UsageError(TvmakeError):
    """A command line that does not make sense."""

    exit_code = 2


class MachineError(TvmakeError):
    """Something this machine lacks: a library, a compiler, disk space, a permission."""

    exit_code = 3


class DeviceError(TvmakeError):
    """A device that cannot be reached, or that fails while it works for us."""

    exit_code = 3


class GoalError(TvmakeError):
    """A package that works but misses the goals set for it."""

    exit_code = 4


KINDS = {kind.__name__: kind for kind in (InputError, UsageError, MachineError, DeviceError, GoalError)}
"""By name, for errors that come from another process."""


class ErrorList(TvmakeError):
    """Several mistakes of the same kind, reported together (a config with three wrong keys)."""

    def __init__(self, errors: Sequence[TvmakeError]):
        if not errors:
            raise ValueError("an ErrorList needs at least one error")
        super().__init__("", f"{len(errors)} errors")
        self.errors = tuple(errors)
        self.exit_code = max(error.exit_code for error in errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


LONGEST_LINE = 2000
"""Of an error, in letters; a list of all operators that are missing fits."""


_PAGE = re.compile(r"(?<![\w/.-])(?<!tvmake help )docs/[\w/-]+\.md(?:#[\w-]+)?")


def name_help(text: str) -> str:
    """A message that names pages of the documentation, with the commands that print them."""
    return _PAGE.sub(lambda page: f"`tvmake help {page[0]}`", text)


MOST_ERRORS = 20
"""Of an :class:`ErrorList`, that are printed."""


def print_error(error: TvmakeError) -> None:
    """Print ``error: …`` and the remedy to standard error, for the first mistakes of an :class:`ErrorList`.

    Pages of the documentation get the command that prints them. Lines that are too long to be read, as names in files can make
    them, lose their middle.
    """
    errors = error.errors if isinstance(error, ErrorList) else (error,)
    for single in errors[:MOST_ERRORS]:
        print("error:", "\n".join(map(_shortened, name_help(str(single)).split("\n"))), file=sys.stderr)
    if len(errors) > MOST_ERRORS:
        print(f"error: and {len(errors) - MOST_ERRORS} more errors", file=sys.stderr)


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 200]} … {line[-200:]}"
