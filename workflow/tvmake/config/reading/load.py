"""Read config files: YAML with line numbers, overlays, and every error at once."""

import difflib
import re
import types
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from tvmake.config.model import FORMATS
from tvmake.config.reading.former_keys import KeyPath, former_keys, renamed, value_at
from tvmake.config.reading.messages import EXPECTED, kinds_below, message, name_remedy, shown
from tvmake.config.reading.yaml_remedies import yaml_problem
from tvmake.config.reading.yaml_text import LARGEST_BYTES, parse
from tvmake.config.root import Config
from tvmake.config.text.typographic import INVISIBLE, SPACES
from tvmake.errors import ErrorList, InputError, TvmakeError
from tvmake.process.output import printable
from tvmake.storage.permissions import unreadable
from tvmake.storage.plain_files import open_plain


class Position(NamedTuple):
    """Where a key stands."""

    file: str
    line: int
    """From 1; 0 for what is in no file."""
    written: str = ""
    """Its value as it is written, where it is a single one."""


KINDS = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
"""What a config may be instead of a mapping."""

LEAST = {"models": "{source: FILE}", "targets": "{kind: llvm}", "precisions": "{}"}
"""The least that is said of an entry."""

OTHER_CONFIGS = {".toml": "TOML", ".ini": "an INI file", ".cfg": "an INI file", ".py": "Python"}
"""What configs of other programs are written in, by their suffixes."""

BEGIN = 8
"""Characters that an encoding is told by."""

NO_FILE = "config"
"""Where a mistake is said to be that is in no file."""

SET = "--set"
"""The option that overrides keys."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters besides tabs and ends of lines, and halves of characters."""

UNSEEN = re.compile(f"[{SPACES}{INVISIBLE}]")
"""What nobody sees in a key."""


def load(paths: Sequence[Path]) -> Config:
    """Read config files, later ones laid over earlier ones, and check the result.

    Mappings merge key by key; lists and scalars replace; ``key: null`` removes a key of an earlier file, unless null is
    a value that the key takes (``goals: {rtol: null}``, ``limit: null``).

    Raises:
        InputError, ErrorList: a file cannot be read, or the config is wrong; every mistake is named with its file,
            line and key.
    """
    return load_layers(paths, {})


def load_layers(
    paths: Sequence[Path],
    last: Mapping[str, Any],
    note: Callable[[str], None] = lambda _: None,
    *,
    first: Mapping[str, Any] | None = None,
    given_as: str = SET,
) -> Config:
    """As :func:`load`, with one more layer that is in no file (``--set`` options).

    Args:
        note: called with a line for each key that is read under a former name.
        first: what the files are laid over.
        given_as: how ``last`` was given: with this option, each of its values for itself, or as the argument of this name.
    """
    merged: dict[str, Any] = dict(first or {})
    positions: dict[KeyPath, Position] = {}
    for path in paths:
        merged = merge(merged, read_yaml(path, positions))
    for end, value in _ends(last):
        shown_value = "…" if "env" in end else value  # those of variables may be secret
        positions[end] = Position(f"{SET} {'.'.join(end)}={shown_value}" if given_as == SET else given_as, 0)
    return check(merge(merged, last), positions, str(paths[-1]) if paths else NO_FILE, note)


def _ends(values: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The keys with a value of their own, and how these are written."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _ends(value, (*above, str(key)))
        else:
            yield (*above, str(key)), "" if value is None else str(value)


def check(
    values: Mapping[str, Any],
    positions: Mapping[KeyPath, Position],
    default_file: str = NO_FILE,
    note: Callable[[str], None] = lambda _: None,
) -> Config:
    """Turn merged values into a Config.

    Raises:
        InputError, ErrorList: as in :func:`load`.
    """
    if unprintable := next(_unprintable(values, ()), None):
        path, character = unprintable
        problem = f"{dotted(path)}: holds the character {character!a}"
        remedy = (
            "it cannot be told from a plain space, or from nothing; type it anew" if UNSEEN.match(character) else None
        )
        raise InputError(_where(path, positions, default_file), problem, remedy)
    given_twice: list[TvmakeError] = []
    for former, present in former_keys(values).items():
        where = _where(former, positions, default_file)
        if None not in (value_at(values, former), value_at(values, present)):
            problem = f"{dotted(former)} is the former name of {dotted(present)}, and both are given"
            given_twice.append(InputError(where, problem, f"keep {dotted(present)}"))
        else:
            note(f"{where}: {dotted(former)} is now called {dotted(present)}")
            positions = {**positions, present: positions[former]} if former in positions else positions
        values = renamed(values, former, present[-1])
    try:
        config = Config.model_validate(as_meant(values))
    except ValidationError as error:
        raise one_or_many([*given_twice, *_translate(error, values, positions, default_file)]) from None
    if given_twice:
        raise one_or_many(given_twice)
    return config


def _unprintable(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Control characters in keys and texts, which would reach terminals, file names and command lines."""
    if isinstance(value, str):
        if found := CONTROL.search(value):
            yield path, found[0]
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            name = str(key)
            if found := CONTROL.search(name) or UNSEEN.search(name):
                yield (*path, name), found[0]
            yield from _unprintable(entry, (*path, name))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unprintable(entry, (*path, str(index)))


def located(error: TvmakeError, files: Iterable[Path]) -> TvmakeError:
    """The same error with file and line of the config key that it begins with; as it is where there is none.

    Args:
        error: its ``where`` may begin with a key, as ``models.digits.source`` or ``targets.cpu: …``.
        files: the config's, later ones laid over earlier ones.
    """
    if isinstance(error, ErrorList):
        return ErrorList([located(each, files) for each in error.errors])
    positions: dict[KeyPath, Position] = {}
    for file in files:
        try:
            read_yaml(file, positions)
        except InputError:
            return error
    key = error.where.partition(": ")[0]
    known = [
        path
        for path in positions
        if dotted(path) == key or (len(path) > 1 and f"{key}.".startswith((f"{dotted(path)}.", f"{dotted(path)}[")))
    ]
    if not known:
        return error
    place = positions[max(known, key=len)]
    return type(error)(f"{place.file}:{place.line}: {error.where}", error.problem, error.remedy)


def one_or_many(errors: Sequence[TvmakeError]) -> TvmakeError:
    """A single error as itself, several as a list."""
    return errors[0] if len(errors) == 1 else ErrorList(errors)


def read_yaml(path: Path, positions: dict[KeyPath, Position]) -> dict[str, Any]:
    """Read one YAML mapping and note where each key stands.

    Raises:
        InputError: missing, unreadable, not YAML, not a mapping, or a key given twice.
    """
    try:
        with open_plain(path) as file:
            content = file.read(LARGEST_BYTES + 1)
        if path.suffix.lower() in FORMATS:
            remedy = f"`tvmake compile {path}` compiles it, `tvmake init {path}` writes a config for it"
            raise InputError(str(path), "is a model, where a config is expected", remedy)
        if path.suffix.lower() in OTHER_CONFIGS:
            problem = f"is {OTHER_CONFIGS[path.suffix.lower()]}, where YAML is expected"
            raise InputError(str(path), problem, "`tvmake init MODEL` writes a config; JSON is read as well")
        text = "" if len(content) > LARGEST_BYTES else content.decode()
    except FileNotFoundError:
        near = [str(one) for one in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        close = difflib.get_close_matches(str(path), near, n=1)
        remedy = f"did you mean '{close[0]}'?" if close else "`tvmake init MODEL` writes one from a model file"
        raise InputError(str(path), "no such config file", remedy) from None
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError):
            raise unreadable(path, error) from None
        number = content.count(b"\n", 0, error.start) + 1
        encoding = _encoding(content)
        problem = f"cannot be read: it is {f'{encoding} text' if encoding else 'not UTF-8 text'}"
        raise InputError(f"{path}:{number}", problem, _as_utf8(path, encoding or "LATIN1")) from None
    if len(content) > LARGEST_BYTES:
        problem = f"is larger than {LARGEST_BYTES // 2**20} MiB, which no config is"
        raise InputError(str(path), problem, "name what it lists by files of their own, or split the run")
    try:
        document = parse(text)
        _note_positions(document.root, (), str(path), positions)
        values = document.values()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}", *yaml_problem(error, text)) from None
    except yaml.reader.ReaderError as error:
        number = content.count(b"\n", 0, error.position) + 1
        if encoding := _encoding(content):
            raise InputError(str(path), f"cannot be read: it is {encoding} text", _as_utf8(path, encoding)) from None
        raise InputError(f"{path}:{number}", f"not valid YAML: {error.reason}", "take it out") from None
    except yaml.YAMLError as error:
        raise InputError(str(path), f"not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        problem = f"expected a mapping of keys, found {KINDS.get(type(values), 'a single value')}"
        raise InputError(str(path), problem, "begin with `models:`; `tvmake init MODEL` writes a config")
    return values


def _encoding(content: bytes) -> str:
    """The encoding of a text that is no UTF-8, by its mark or its zeros, as iconv calls it; empty where it is another one."""
    marks = {BOM_UTF32_LE: "UTF-32", BOM_UTF32_BE: "UTF-32", BOM_UTF16_LE: "UTF-16", BOM_UTF16_BE: "UTF-16"}
    if mark := next((mark for mark in marks if content.startswith(mark)), None):
        return marks[mark]
    begin = content[: 4 * BEGIN]
    zeros = "".join("0" if 8 * begin[place::4].count(0) > len(begin) else "x" for place in range(4))
    return {"x000": "UTF-32LE", "000x": "UTF-32BE", "x0x0": "UTF-16LE", "0x0x": "UTF-16BE"}.get(zeros, "")


def _as_utf8(path: Path, encoding: str) -> str:
    return f"save it as UTF-8: iconv -f {encoding} -t UTF-8 {path.name} > new.yaml"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base`` as Snakemake lays one configfile on another.

    Mappings merge, everything else replaces; an empty mapping changes nothing.
    """
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        if not isinstance(value, Mapping):
            result[key] = value
        elif value or key not in result:
            result[key] = merge(current if isinstance(current, Mapping) else {}, value)
    return result


def as_meant(value: Any, kinds: Sequence[Any] = (Config,)) -> Any:
    """Drop keys whose value is null, which is how an overlay removes one, except where null is a value of its own; and let true
    be no number, which it is to Python.

    Args:
        kinds: the types that ``value`` may have.
    """
    if isinstance(value, Mapping):
        kept = {}
        for key, entry in value.items():
            below = kinds_below(kinds, str(key))
            # An unknown key stays, so that it is reported.
            if entry is not None or not below or types.NoneType in below or Any in below:
                kept[key] = as_meant(entry, below)
        return kept
    is_number_wanted = bool not in kinds and (int in kinds or float in kinds)
    return str(value).lower() if isinstance(value, bool) and is_number_wanted else value


def _note_positions(
    node: yaml.Node | None,
    path: KeyPath,
    file: str,
    positions: dict[KeyPath, Position],
    above: tuple[yaml.Node, ...] = (),
) -> None:
    if node in above:
        problem = f"'{dotted(path)}' contains itself"
        raise InputError(f"{file}:{node.start_mark.line + 1}", problem, "an alias stands for what ends before it")
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen and name != "<<":
                problem = f"the key '{dotted((*path, name))}' is given twice"
                raise InputError(f"{file}:{line}", problem, f"line {seen[name]} has it too; keep one of them")
            seen[name] = line
            positions[(*path, name)] = Position(file, line, _written(value))
            _note_positions(value, (*path, name), file, positions, (*above, node))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            place = Position(file, value.start_mark.line + 1, _written(value))
            positions[(*path, str(index))] = place
            if len(path) == 1 and place.written:  # a list of names, as of targets
                positions.setdefault((*path, place.written), place)
            _note_positions(value, (*path, str(index)), file, positions, (*above, node))


def _written(value: yaml.Node) -> str:
    return str(value.value) if isinstance(value, yaml.ScalarNode) else ""


def _translate(
    error: ValidationError, values: Any, positions: Mapping[KeyPath, Position], default_file: str
) -> Iterable[InputError]:
    found: dict[KeyPath, list[Mapping[str, Any]]] = {}  # a union reports once per branch
    for detail in error.errors(include_url=False):
        path = _written_path(detail, values)
        if detail["loc"][-1:] == ("[key]",) and detail["type"] == "string_type":
            above = tuple(map(str, detail["loc"][:-2]))
            name = _key_as_written(detail["input"], above, positions)
            problem = f"{dotted(above)}: YAML reads the name {name} as {shown(detail['input'])}, which is no text"
            yield InputError(_where((*above, name), positions, default_file), problem, name_remedy(name, above))
            continue
        if detail["type"] == "invalid_key":  # one that YAML makes no text of
            above = path[: len(detail["loc"]) - 1]
            path = (*above, _key_as_written(detail["input"], above, positions))
        if detail["type"] == "union_tag_invalid":
            path = (*path, detail["ctx"]["discriminator"].strip("'"))
        if not path and detail["type"] == "value_error":
            # Cross-checks of the whole config name their own key, one a line.
            for line in detail["msg"].removeprefix("Value error, ").splitlines():
                key, _, problem = line.partition(": ")
                problem, _, hint = problem.partition("; ")
                place = _key_path(key)
                if names := _without_values(values, key):
                    place = (*place, names[0])
                    hint = f"nothing is said of {', '.join(names)}; write {key}: {{{names[0]}: {LEAST[key]}}}"
                yield InputError(_where(place, positions, default_file), f"{key}: {problem}", hint or None)
            continue
        found.setdefault(path, []).append(detail)
    above_others = {path[:length] for path in found for length in range(len(path))}
    for path, details in found.items():
        if path in above_others and details[0]["type"] in EXPECTED:
            continue  # a branch that the value was not meant for
        position = positions.get(path)
        problem, remedy = message(details, path, position.written if position else "")
        where = _where(path, positions, default_file)
        given = details[0].get("input")
        if where.startswith(SET) and isinstance(given, Mapping) and len(given) == 1:
            # A name with a dot was taken for two.
            ((below, value),) = given.items()
            remedy = (
                remedy
                or (
                    f"write --set '{'.'.join(path[:-1])}={{{path[-1]}.{below}: {value}}}' for a name with a dot"
                    if path[1:]
                    else None
                )
                or f"a text with a colon and a space is put in quotation marks: --set '{path[0]}=\"{below}: {value}\"'"
            )
        yield InputError(where, f"{dotted(path)}: {problem}", remedy)


def _without_values(values: Any, axis: str) -> list[str]:
    """The names of an axis, where it has names only, with nothing after their colons."""
    entries = values.get(axis) if axis in LEAST else None
    return list(map(str, entries)) if isinstance(entries, Mapping) and not any(map(bool, entries.values())) else []


def _key_as_written(key: Any, above: KeyPath, positions: Mapping[KeyPath, Position]) -> str:
    """The text of a key that YAML made something else of (``on``, ``18``)."""
    for path in positions:
        if path[:-1] == above and path and yaml.safe_load(path[-1]) == key:
            return path[-1]
    return str(key)


def _written_path(detail: Mapping[str, Any], values: Any) -> KeyPath:
    """An error's location without the parts that pydantic adds for branches of unions and for wrappers."""
    path: list[str] = []
    current = values
    parts = detail["loc"]
    for index, part in enumerate(parts):
        in_list = isinstance(current, list) and isinstance(part, int) and part < len(current)
        if in_list or (isinstance(current, Mapping) and part in current):
            current = current[part]
        elif isinstance(current, list) and part in current:
            current = None  # an entry of a list that stands for a mapping of names
        elif not (detail["type"] == "missing" and index == len(parts) - 1):
            continue
        path.append(str(part))
    return tuple(path)


def _key_path(key: str) -> KeyPath:
    return tuple(key.replace("[", ".").replace("]", "").split("."))


def dotted(path: KeyPath) -> str:
    """``targets.adreno.tag``, ``variants.exclude[0]``."""
    text = ""
    for part in path:
        name = printable(part)
        text += f"[{name}]" if part.isdigit() else f".{name}" if text else name
    return text or "config"


def _where(path: KeyPath, positions: Mapping[KeyPath, Position], default_file: str) -> str:
    # A key above those of --set is in no file.
    given_below = (one for below, one in positions.items() if not one.line and path and below[: len(path)] == path)
    above = (positions.get(path[:length]) for length in range(len(path) - 1, 0, -1))
    for position in (positions.get(path), next(given_below, None), *above):
        if position:
            return f"{position.file}:{position.line}" if position.line else position.file
    return default_file
