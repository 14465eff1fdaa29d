"""Read one YAML file of a config and record the line of each key."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tvmake.config.reading.positions import KeyPath, Position, format_path
from tvmake.config.reading.yaml_text import LARGEST_BYTES, parse
from tvmake.errors import InputError
from tvmake.frontend.options import FORMATS
from tvmake.process.output import argument
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import encoding_error, open_plain

KINDS = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
"""Names of values other than mappings, for messages."""

OTHER_CONFIGS = {".toml": "TOML", ".ini": "an INI file", ".cfg": "an INI file", ".py": "Python"}
"""Config formats of other programs, by suffix."""

REMEDIES = (
    ("cannot start any token", "indent with spaces, and put a text that begins with a special character in quotation marks"),
    ("constructor for the tag", "a config cannot have tags; remove it, and merge several files with -c FILE -c FILE"),
    ("another document", "keep one document; -c FILE -c FILE merges several files"),
    ("escape character", "a backslash is an escape in double quotation marks: write '…' instead of \"…\", or / for the backslash"),
    ("undefined alias", "put a text that begins with * in quotation marks; an alias must follow its anchor"),
    ("mapping values", "put a text with a colon and a space in quotation marks; the keys of a mapping start in one column"),
)  # fmt: skip
"""Remedies, by words of the parser's problem."""


def read_yaml(path: Path, positions: dict[KeyPath, Position]) -> dict[str, Any]:
    """Read one YAML mapping and record the position of each key.

    Raises:
        InputError: the file is missing, unreadable, not YAML or not a mapping, or has a key twice.
    """
    try:
        with open_plain(path) as file:
            content = file.read(LARGEST_BYTES + 1)
        if path.suffix.lower() in FORMATS:
            model = argument(path)
            remedy = f"`tvmake compile {model}` compiles it, `tvmake init {model}` writes a config for it"
            raise InputError(str(path), "is a model, not a config", remedy)
        if path.suffix.lower() == ".tar":
            remedy = f"`tvmake run {argument(path)}` runs a package"
            raise InputError(str(path), "is an archive, not a config", remedy)
        if path.suffix.lower() in OTHER_CONFIGS:
            problem = f"is {OTHER_CONFIGS[path.suffix.lower()]}, not YAML"
            raise InputError(str(path), problem, "`tvmake init MODEL` writes a config; JSON is read as well")
        text = "" if len(content) > LARGEST_BYTES else content.decode()
    except FileNotFoundError:
        configs = [str(config) for config in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        close = difflib.get_close_matches(str(path), configs, n=1)
        remedy = f"did you mean '{close[0]}'?" if close else "`tvmake init MODEL` writes one from a model file"
        raise InputError(str(path), "no such config file", remedy) from None
    except OSError as error:
        raise unreadable_error(path, error) from None
    except UnicodeDecodeError as error:
        raise encoding_error(path, error) from None
    if len(content) > LARGEST_BYTES:
        problem = f"is larger than {LARGEST_BYTES // 2**20} MiB, the limit for a config"
        raise InputError(str(path), problem, "move long lists into files, or split the run")
    try:
        document = parse(text)
        _note_positions(document.root, (), str(path), positions)
        values = document.values()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}", *_yaml_problem(error, text)) from None
    except yaml.reader.ReaderError as error:
        number = content.count(b"\n", 0, error.position) + 1
        raise InputError(f"{path}:{number}", f"not valid YAML: {error.reason}", "remove the character") from None
    except yaml.YAMLError as error:
        raise InputError(str(path), f"not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        problem = f"expected a mapping of keys, found {KINDS.get(type(values), 'a single value')}"
        raise InputError(str(path), problem, "begin with `models:`; `tvmake init MODEL` writes a config")
    return values


def _note_positions(
    node: yaml.Node | None,
    path: KeyPath,
    file: str,
    positions: dict[KeyPath, Position],
    above: tuple[yaml.Node, ...] = (),
) -> None:
    if node in above:
        problem = f"'{format_path(path)}' contains itself"
        raise InputError(
            f"{file}:{node.start_mark.line + 1}", problem, "an alias can only refer to a value that ends before it"
        )
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen and name != "<<":
                problem = f"the key '{format_path((*path, name))}' is set twice"
                raise InputError(f"{file}:{line}", problem, f"line {seen[name]} has it too; keep one of them")
            seen[name] = line
            positions[(*path, name)] = Position(file, line, _scalar_text(value))
            _note_positions(value, (*path, name), file, positions, (*above, node))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            position = Position(file, value.start_mark.line + 1, _scalar_text(value))
            positions[(*path, str(index))] = position
            if len(path) == 1 and position.written:  # a list of names, as of targets
                positions.setdefault((*path, position.written), position)
            _note_positions(value, (*path, str(index)), file, positions, (*above, node))


def _scalar_text(value: yaml.Node) -> str:
    return str(value.value) if isinstance(value, yaml.ScalarNode) else ""


def _yaml_problem(error: yaml.MarkedYAMLError, text: str) -> tuple[str, str]:
    """Return problem and remedy of invalid YAML."""
    problem = error.problem or error.context or ""
    if error.note:  # an error of tvmake
        return problem, error.note
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    if mark and (ended := _ended_list(lines, mark.line)):
        entry = lines[mark.line].strip()
        return f"not valid YAML: '{entry}' continues a list that ended in line {ended}", (
            "write all entries within the brackets, or each on a line of its own"
        )
    remedy = add_space(lines[mark.line]) if mark and mark.line < len(lines) else None
    remedy = remedy or next((remedy for words, remedy in REMEDIES if words in problem), None)
    if remedy is None and error.context_mark is not None:
        began = error.context_mark.line + 1
        remedy = f"check line {began}: an unclosed bracket or quotation mark begins there, or a wrong indentation"
    return f"not valid YAML: {problem}", remedy or "check this line and the one before; a key has a colon and a space"


def _ended_list(lines: Sequence[str], number: int) -> int | None:
    """The line of the list in brackets before an entry with a dash; None if the line at ``number`` is not such an entry."""
    if number >= len(lines) or not lines[number].lstrip().startswith("- "):
        return None
    above = ((index, re.sub(r"(^|\s)#.*", "", lines[index]).rstrip()) for index in range(number - 1, -1, -1))
    index, text = next(((index, text) for index, text in above if text), (0, ""))
    return index + 1 if text.endswith("]") else None


def add_space(text: str) -> str | None:
    """Return the remedy for a key whose value follows the colon without a space."""
    match = re.search(r"([\w.-]+:)([{\[])", text)
    return f"write a space after the colon: {match[1]} {match[2]}" if match else None
