"""``-v`` and ``-q``, which every command has: how much is printed besides what was asked for."""

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

OPTIONS = {
    "verbose": "Say more: which config is read, and where in tvmake an error comes from.",
    "quiet": "Leave notes out; print the result and errors only.",
}
"""The options that commands get which have none of that name, with their help."""


class Verbosity:
    """What was asked for in this process."""

    verbose = False
    quiet = False


def add_options(root: Any, without: Sequence[str] = ()) -> None:
    """Give a command, and all below it, the options; those that have one of a kind themselves keep it, and it counts too.

    Args:
        root: the command, or group of commands.
        without: names of commands below it that get none.
    """
    if below := getattr(root, "commands", None):
        for name, command in below.items():
            if name not in without:
                add_options(command)
        return
    known = {parameter.name: parameter for parameter in root.params}
    for name in OPTIONS:
        if name in known:
            known[name].callback = _noted
        else:
            option = next(option for option in _options() if option.name == name)
            option.callback, option.expose_value = _noted, False
            root.params.append(option)


def _options() -> list[Any]:
    """The two options, as typer makes them."""
    application = typer.Typer()

    @application.command()
    def either(
        verbose: Annotated[bool, typer.Option("--verbose", "-v", help=OPTIONS["verbose"])] = False,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help=OPTIONS["quiet"])] = False,
    ) -> None: ...

    return list(get_command(application).params)


def print_detail(text: str) -> None:
    """Print what only ``--verbose`` asks for."""
    if Verbosity.verbose:
        print(text, file=sys.stderr)


def print_origin(error: Exception) -> None:
    """Print where in tvmake an error comes from, for ``--verbose``."""
    if Verbosity.verbose:
        traceback.print_exception(error)


def _noted(_context: Any, option: Any, value: bool) -> bool:
    setattr(Verbosity, option.name, bool(value))
    return value
