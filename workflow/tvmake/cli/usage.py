"""Turn typer's errors into tvmake's: where, what, remedy."""

import difflib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tvmake.errors import InputError, TvmakeError, UsageError
from tvmake.storage.permissions import how_to_permit

OTHER_OPTIONS = {
    **dict.fromkeys(("--fp16", "--int8", "--quantize"), "write --precision float16, int8 or int8_weights"),
    **dict.fromkeys(
        ("--shapes", "--input-shapes"),
        "write --input-shape INPUT=1,3,224,224, or --dim NAME=MIN..MAX for a dimension that stays dynamic",
    ),
    **dict.fromkeys(("--model", "--onnx"), "name the model without an option: `tvmake {command} model.onnx`"),
    "-V": "`tvmake --version` prints the version",
    "--saveEngine": "write -o PACKAGE.tar",
    "--target-host": 'the host is part of the target: -t \'{{"kind": "opencl", "host": {{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}}}\'',
    "--json": "JSON output: `tvmake status --json`, `tvmake status results --json`",
}  # fmt: skip
"""Remedies for the commonest options of tvmc, trtexec and others; ``{command}`` is the typed command."""


def usage_error(refusal: Any, root: Any, arguments: Sequence[str]) -> TvmakeError:
    """Convert an error of typer's.

    Args:
        refusal: the error that typer raised for the command line.
        root: ``tvmake`` as a typer command.
        arguments: the words after ``tvmake``.
    """
    command, path = _find_command(root, arguments)
    see = f"see `{path} -h`"
    kind, text = type(refusal).__name__, refusal.message.rstrip(".")
    plain = text[:1].lower() + text[1:]
    if kind == "NoSuchOption":
        completed = _suggest_completion(refusal.option_name, command)
        name = path.removeprefix("tvmake ")
        moved = _suggest_order(refusal.option_name, root, arguments) if command is root else None
        remedy = (
            moved
            or completed
            or _equivalent(refusal.option_name, name)
            or _suggest_similar(refusal.option_name, command)
            or see
        )
        return UsageError(refusal.option_name, f"`{path}` has no such option", remedy)
    if kind == "BadOptionUsage":
        option = next((parameter for parameter in command.params if refusal.option_name in parameter.opts), None)
        if option is None or not text.endswith("requires an argument"):
            return UsageError(refusal.option_name, plain, see)
        return UsageError(refusal.option_name, "its value is missing", _name_and_help(option)[1] or see)
    if kind == "MissingParameter":
        name, help_ = _name_and_help(refusal.param)
        return UsageError(path, f"{name} is missing", help_ or see)
    if kind == "BadParameter" and refusal.param is not None:
        return _value_error(refusal, plain)
    if text.startswith("No such command "):
        typed = text.split("'")[1]
        return UsageError(f"{path} {typed}", "there is no such command", _did_you_mean(typed, command.commands) or see)
    if text == "Missing command":
        return UsageError(path, "a command is missing", f"the commands are {', '.join(command.commands)}")
    if text.startswith("Got unexpected extra argument"):
        words = text.partition("(s) (")[2].removesuffix(")")
        return UsageError(path, f"unexpected arguments: {words}", _remedy_for_words(path, words) or see)
    return UsageError(path, plain, see)


def _find_command(root: Any, arguments: Iterable[str]) -> tuple[Any, str]:
    """Return the typed command and its full name."""
    path = ["tvmake"]
    for word in arguments:
        if word not in getattr(root, "commands", ()):
            break
        root = root.commands[word]
        path.append(word)
    return root, " ".join(path)


def _long_names(command: Any) -> list[str]:
    return [name[2:] for option in command.params for name in option.opts if name.startswith("--")]


def _suggest_completion(typed: str, command: Any) -> str | None:
    """A hint with the options that start with the typed text."""
    word = typed.removeprefix("--")
    matches = [f"--{name}" for name in _long_names(command) if typed.startswith("--") and name.startswith(word)]
    return f"did you mean {' or '.join(matches)}?" if matches else None


def _suggest_order(typed: str, root: Any, arguments: Sequence[str]) -> str | None:
    """A hint for an option that is typed before its command."""
    words = list(arguments)
    name = next((word for word in words if word in root.commands), None)
    if name is None:
        return None
    before, after = words[: words.index(name)], words[words.index(name) :]
    if not any(typed in option.opts for option in _find_command(root, after)[0].params):
        return None
    return f"options come after the command: `tvmake {shlex.join([*after, *before])}`"


def _suggest_similar(typed: str, command: Any) -> str | None:
    """A hint with an option of a similar name."""
    return _did_you_mean(typed.removeprefix("--"), _long_names(command), "--")


def _did_you_mean(typed: str, known: Iterable[str], prefix: str = "") -> str | None:
    close = difflib.get_close_matches(typed, known, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else None


def _value_error(refusal: Any, plain: str) -> TvmakeError:
    """Convert the error of an invalid value."""
    from tvmake.config.reading.messages import message, one_of

    name, help_ = _name_and_help(refusal.param)
    details = refusal.__cause__.errors(include_url=False) if hasattr(refusal.__cause__, "errors") else []
    if match := re.fullmatch(r"(?:file|directory|path) '(.*)' (does not exist|is .*)", plain):
        return _file_error(match[1], match[2], help_)
    if not details:
        return UsageError(name, plain, help_)
    value = details[0].get("input")
    where = f"{name} {value}" if isinstance(value, str) else name
    choices = getattr(getattr(refusal.param, "type_descriptor", None), "choices", None)  # of a Literal
    problem, remedy = one_of(value, list(choices)) if choices else message(details[:1], (name,))
    return UsageError(where, problem, remedy.replace(f"{name}: ", f"{name} ") if remedy else help_)


def _file_error(file: str, problem: str, help_: str | None) -> TvmakeError:
    """Convert the error of a file or directory that does not exist or cannot be used."""
    if problem in ("is not readable", "is not writable"):
        mode = os.R_OK if problem == "is not readable" else os.W_OK
        remedy = how_to_permit(Path(file), mode)
        return InputError(file, f"cannot be {'read' if mode == os.R_OK else 'written'}: permission denied", remedy)
    return InputError(file, "no such file or directory" if problem == "does not exist" else problem, help_)


def _name_and_help(parameter: Any) -> tuple[str, str | None]:
    """Name of an option or argument on the command line, and its help."""
    is_option = parameter.param_type_name == "option"
    name = max(parameter.opts, key=len) if is_option else parameter.name
    help_ = getattr(parameter, "help", None)
    return name, f"{name}: {help_}" if help_ else None


def _equivalent(option: str, command: str) -> str | None:
    """The remedy for another tool's option; None if it is unknown.

    Args:
        command: tvmake's command, as typed.
    """
    known = OTHER_OPTIONS.get(option)
    return known.format(command=command) if known else None


def is_model(word: str) -> bool:
    """Whether a word is a model file's name, by its suffix."""
    from tvmake.frontend.options import FORMATS

    return Path(word).suffix in FORMATS


def _remedy_for_words(path: str, words: str) -> str | None:
    """The remedy for words that a command does not take; None if their meaning is unknown."""
    first = words.split()[0] if words.split() else ""
    if first.endswith((".yaml", ".yml")):
        return f"name a config with -c: `{path} -c {first}`"
    if path in ("tvmake compile", "tvmake tune") and not is_model(first):
        return f"name a target with -t and a package with -o; see `{path} -h`"
    return None
