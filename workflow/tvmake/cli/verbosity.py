"""``-v`` and ``-q`` of every command: how much is printed."""

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

OPTIONS = {
    "verbose": "Print the config files that are read, and the traceback of errors.",
    "quiet": "Print only results and errors, without notes.",
}
"""Help of the options. Commands get those that they do not define themselves."""


class Verbosity:
    """Options of this process."""

    verbose = False
    quiet = False


def add_options(root: Any, without: Sequence[str] = ()) -> None:
    """Add the options to a command and its subcommands. A command's own options of the same name are kept and count too.

    Args:
        root: the command, or group of commands.
        without: names of subcommands that get none.
    """
    if subcommands := getattr(root, "commands", None):
        for name, command in subcommands.items():
            if name not in without:
                add_options(command)
        return
    own = {parameter.name: parameter for parameter in root.params}
    for name in OPTIONS:
        if name in own:
            own[name].callback = _store
        else:
            option = next(option for option in _options() if option.name == name)
            option.callback, option.expose_value = _store, False
            root.params.append(option)


def _options() -> list[Any]:
    """The two options, as typer parameters."""
    application = typer.Typer()

    @application.command()
    def command(
        verbose: Annotated[bool, typer.Option("--verbose", "-v", help=OPTIONS["verbose"])] = False,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help=OPTIONS["quiet"])] = False,
    ) -> None: ...

    return list(get_command(application).params)


def print_detail(text: str) -> None:
    """Print a detail for ``--verbose``."""
    if Verbosity.verbose:
        print(text, file=sys.stderr)


def print_origin(error: Exception) -> None:
    """Print an error's traceback for ``--verbose``."""
    if Verbosity.verbose:
        traceback.print_exception(error)


def _store(_context: Any, option: Any, value: bool) -> bool:
    setattr(Verbosity, option.name, bool(value))
    return value
