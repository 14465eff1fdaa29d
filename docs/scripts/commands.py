"""Write the reference of the commands from their own help: ``python docs/scripts/commands.py``."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from tvmake.cli.app import command as tvmake_command
from tvmake.cli.verbosity import OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "reference" / "commands.md"

INTRODUCTION = """# Commands

Every command with its arguments and options, as `--help` shows them. Errors go to standard error. The exit code is 1 for an error in
your input, 2 for an invalid command line, 3 for a device or machine that lacks something, and 4 for missed goals. Every command except
`tvmake step` has `-v` (print the config files that are read, and the traceback of errors) and `-q` (no notes and no progress).
This page is generated from the commands: `python docs/scripts/commands.py`.
"""

STEP = "The commands are the [stages](stages.md)."
"""Instead of one section for each stage."""


def sections(command: Any, path: str) -> Iterator[str]:
    """What the page says of a command and those below it."""
    names = " ".join(_shown(parameter) for parameter in command.params if _is_argument(parameter))
    yield f"\n{'#' * (path.count(' ') + 1)} {path}\n"
    yield cleandoc(command.help or "") + ("" if _is_group(command) else "\n")
    subcommands = {} if path == "tvmake step" else dict(getattr(command, "commands", {}))
    if path == "tvmake step":
        yield STEP + "\n"
    if names:
        yield f"    {path} {names}\n"
    if command.epilog:
        yield f"{command.epilog.replace('Example: ', 'Example: `')}`\n"
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows])
    for name, subcommand in subcommands.items():
        if not subcommand.hidden:
            yield from sections(subcommand, f"{path} {name}")


def _is_group(command: Any) -> bool:
    return bool(getattr(command, "commands", {}))


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _shown(argument: Any) -> str:
    """An argument in a usage line."""
    name = (argument.metavar or argument.name.upper()) + ("…" if argument.nargs == -1 else "")
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _row(parameter: Any) -> str | None:
    """The table's row of an argument or option; None for one without a help text."""
    text = getattr(parameter, "help", None)
    if not text or parameter.name == "help" or parameter.hidden or text in OPTIONS.values():
        return None
    if _is_argument(parameter):
        name = f"`{_shown(parameter)}`".replace("|", r"\|")
    else:
        name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    text = " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
    default = parameter.default
    if isinstance(default, int | float | str | Path) and not isinstance(default, bool) and "[default:" not in text:
        text += f" [default: {default}]"
    return f"| {name} | {text} |"


def page() -> str:
    """The page, as Markdown."""
    root = tvmake_command()
    commands = {name: command for name, command in root.commands.items() if not command.hidden}
    parts = [part for name, command in commands.items() for part in sections(command, f"tvmake {name}")]
    return "\n".join([INTRODUCTION.rstrip(), *parts]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
