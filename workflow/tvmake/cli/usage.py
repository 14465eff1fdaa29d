"""What typer refuses of a command line, in tvmake's words: where, what, what to type instead."""

import difflib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tvmake.cli.other_options import beside, elsewhere
from tvmake.errors import InputError, TvmakeError, UsageError
from tvmake.storage.permissions import how_to_permit


def usage_error(refused: Any, root: Any, arguments: Sequence[str]) -> TvmakeError:
    """A refusal of typer's as an error of tvmake's.

    Args:
        refused: what typer raises for a command line, of whatever kind.
        root: ``tvmake`` as typer knows it.
        arguments: what was typed after ``tvmake``.
    """
    command, path = _named(root, arguments)
    see = f"see `{path} -h`"
    kind, text = type(refused).__name__, refused.message.rstrip(".")
    plain = text[:1].lower() + text[1:]
    if kind == "NoSuchOption":
        begun = _begun(refused.option_name, command)
        name = path.removeprefix("tvmake ")
        behind = _behind(refused.option_name, root, arguments) if command is root else None
        remedy = behind or begun or elsewhere(refused.option_name, name) or _near(refused.option_name, command) or see
        return UsageError(refused.option_name, f"`{path}` has no such option", remedy)
    if kind == "BadOptionUsage":
        option = next((one for one in command.params if refused.option_name in one.opts), None)
        if option is None or not text.endswith("requires an argument"):
            return UsageError(refused.option_name, plain, see)
        return UsageError(refused.option_name, "its value is missing", _described(option)[1] or see)
    if kind == "MissingParameter":
        name, help_ = _described(refused.param)
        return UsageError(path, f"{name} is missing", help_ or see)
    if kind == "BadParameter" and refused.param is not None:
        return _of_value(refused, plain)
    if text.startswith("No such command "):
        typed = text.split("'")[1]
        return UsageError(f"{path} {typed}", "there is no such command", _did_you_mean(typed, command.commands) or see)
    if text == "Missing command":
        return UsageError(path, "a command is missing", f"there are {', '.join(command.commands)}")
    if text.startswith("Got unexpected extra argument"):
        words = text.partition("(s) (")[2].removesuffix(")")
        return UsageError(path, f"takes no further words: {words}", beside(path, words) or see)
    return UsageError(path, plain, see)


def _named(root: Any, arguments: Iterable[str]) -> tuple[Any, str]:
    """The command that is typed, and how."""
    path = ["tvmake"]
    for word in arguments:
        if word not in getattr(root, "commands", ()):
            break
        root = root.commands[word]
        path.append(word)
    return root, " ".join(path)


def _long_names(command: Any) -> list[str]:
    return [name[2:] for option in command.params for name in option.opts if name.startswith("--")]


def _begun(typed: str, command: Any) -> str | None:
    """The options that one is the beginning of."""
    word = typed.removeprefix("--")
    begun = [f"--{name}" for name in _long_names(command) if typed.startswith("--") and name.startswith(word)]
    return f"did you mean {' or '.join(begun)}?" if begun else None


def _behind(typed: str, root: Any, arguments: Sequence[str]) -> str | None:
    """What to type instead of an option that stands before the command it belongs to."""
    words = list(arguments)
    name = next((word for word in words if word in root.commands), None)
    if name is None:
        return None
    before, after = words[: words.index(name)], words[words.index(name) :]
    if not any(typed in option.opts for option in _named(root, after)[0].params):
        return None
    return f"options stand behind the command: `tvmake {shlex.join([*after, *before])}`"


def _near(typed: str, command: Any) -> str | None:
    """The option that one misspells."""
    return _did_you_mean(typed.removeprefix("--"), _long_names(command), "--")


def _did_you_mean(typed: str, known: Iterable[str], prefix: str = "") -> str | None:
    close = difflib.get_close_matches(typed, known, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else None


def _of_value(refused: Any, plain: str) -> TvmakeError:
    """A value that an option or argument cannot have."""
    from tvmake.config.reading.messages import message, one_of

    name, help_ = _described(refused.param)
    details = refused.__cause__.errors(include_url=False) if hasattr(refused.__cause__, "errors") else []
    if place := re.fullmatch(r"(?:file|directory|path) '(.*)' (does not exist|is .*)", plain):
        return _of_file(place[1], place[2], help_)
    if not details:
        return UsageError(name, plain, help_)
    given = details[0].get("input")
    where = f"{name} {given}" if isinstance(given, str) else name
    choices = getattr(getattr(refused.param, "type_descriptor", None), "choices", None)  # of a Literal
    problem, remedy = one_of(given, list(choices)) if choices else message(details[:1], (name,))
    return UsageError(where, problem, remedy.replace(f"{name}: ", f"{name} ") if remedy else help_)


def _of_file(file: str, problem: str, help_: str | None) -> TvmakeError:
    """A file or directory that is none, or may not be used."""
    if problem in ("is not readable", "is not writable"):
        wanted = os.R_OK if problem == "is not readable" else os.W_OK
        how = how_to_permit(Path(file), wanted)
        return InputError(file, f"cannot be {'read' if wanted == os.R_OK else 'written'}: permission denied", how)
    return InputError(file, "no such file or directory" if problem == "does not exist" else problem, help_)


def _described(parameter: Any) -> tuple[str, str | None]:
    """What an option or argument is called on the command line, and its help."""
    is_option = parameter.param_type_name == "option"
    name = max(parameter.opts, key=len) if is_option else parameter.name
    help_ = getattr(parameter, "help", None)
    return name, f"{name}: {help_}" if help_ else None
