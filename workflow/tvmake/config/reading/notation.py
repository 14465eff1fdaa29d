"""Write keys of a config in messages as the options of ``tvmake compile``, or as arguments in Python.

A message names what a user can change as a config has it: a YAML mapping in back quotes, `dims: {batch: 1}`. A user of ``tvmake
compile`` has no config; there the message is `--dim batch=1`, and in Python `dims={"batch": 1}`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import yaml

from tvmake.process.output import argument

_QUOTED = re.compile(r"`([a-z][a-z_.]*: [^`\n]+)`")

_FROM_KEYS = {
    "precisions": ("--precision", "precision"),
    "tuning.trials": ("--tune", "tune"),
    "transform.layout": ("--layout", ""),
}
"""Options of the command line and arguments in Python that have a key's value, or the only element of its list."""


@dataclass(frozen=True)
class Notation:
    """The notation of a command or a function without a config, for the messages of the run that it starts.

    Args:
        kind: options of a command, or arguments in Python.
        model: the model's name in the run's config.
        source: the model's source in that config.
        typed_source: the source as the user wrote it.
        options: options by the dotted config key that they set.
    """

    kind: Literal["options", "arguments"]
    model: str
    source: str = ""
    typed_source: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def dump(self) -> str:
        """The notation as JSON, for a child process."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Notation | None":
        """The notation in a text that :meth:`dump` returned; None for an empty text.

        Raises:
            ValueError: the text is not a notation.
        """
        if not text:
            return None
        values = json.loads(text)
        if not isinstance(values, dict) or not values.keys() <= {entry.name for entry in fields(cls)}:
            raise ValueError(text)
        if not isinstance(values.setdefault("options", {}), dict) or not {"kind", "model"} <= values.keys():
            raise ValueError(text)
        return cls(**values)

    def translate(self, text: str) -> str:
        """The message with options or arguments for keys, and with the source as the user wrote it."""
        if self.source and self.source != self.typed_source:
            text = text.replace(f"error: {self.source}: ", f"error: {self.typed_source}: ")
        return _QUOTED.sub(lambda match: self._translate_keys(match[1]) or match[0], text)

    def option_of(self, key: str) -> str | None:
        """The option that set a key, or a key above it; keys of the only model may lack the model's name."""
        from tvmake.config.reading.positions import option_of

        return option_of(key, self.options) or option_of(f"models.{self.model}.{key}", self.options)

    def _translate_keys(self, written: str) -> str | None:
        from tvmake.config.root import Config, ModelConfig

        try:
            keys = yaml.safe_load(written)
        except yaml.YAMLError:
            return None
        if not isinstance(keys, dict):
            return None
        known = {*Config.model_fields, *ModelConfig.model_fields}
        if not all(str(key).partition(".")[0] in known for key in keys):
            return None
        general = Config.model_fields.keys()
        words = _options if self.kind == "options" else _arguments
        parts = (
            part
            for key, value in keys.items()
            for part in words(key if key.partition(".")[0] in general else f"models.{self.model}.{key}", value)
        )
        return f"`{(' ' if self.kind == 'options' else ', ').join(parts)}`"


def _options(key: str, value: Any) -> Iterator[str]:
    """The options of ``tvmake compile`` that set a key."""
    for path, entry in _flatten(key, value):
        match path.split(".")[2:] if path.startswith("models.") else [path]:
            case ["dims", name]:
                yield f"--dim {argument(f'{name}={_size(entry)}')}"
            case ["shapes"] if isinstance(entry, list):
                for shape in entry:
                    yield f"--shape {argument(','.join(f'{name}={size}' for name, size in shape.items()))}"
            case ["inputs", name, "shape"]:
                yield f"--input-shape {argument(f'{name}={_list_text(entry)}')}"
            case ["inputs", name, "value"]:
                yield f"--input-value {argument(f'{name}={_list_text(entry, brackets=True)}')}"
            case ["state", *name]:
                yield f"--state {argument('.'.join(name) + '=' + str(entry))}"
            case ["trusted"] if entry is True:
                yield "--trusted"
            case [only] if only in _FROM_KEYS:
                yield f"{_FROM_KEYS[only][0]} {_only(entry)}"
            case _:
                yield f"--set {argument(f'{path}={_written(entry)}')}"


def _arguments(key: str, value: Any) -> Iterator[str]:
    """The arguments of ``tvmake.load`` and ``Model.compile`` that set a key."""
    named: dict[str, dict[str, Any]] = {"dims": {}, "inputs": {}, "values": {}, "state": {}}
    others: dict[str, Any] = {}
    for path, entry in _flatten(key, value):
        match path.split(".")[2:] if path.startswith("models.") else [path]:
            case ["dims", name]:
                named["dims"][name] = (entry.get("min"), entry.get("max")) if isinstance(entry, dict) else entry
            case ["inputs", name, "shape"]:
                named["inputs"][name] = tuple(entry) if isinstance(entry, list) else entry
            case ["inputs", name, "value"]:
                named["values"][name] = entry
            case ["state", *name]:
                named["state"][".".join(name)] = entry
            case ["shapes"]:
                yield f"shapes={_python(entry)}"
            case ["trusted"]:
                yield f"trusted={entry}"
            case [only] if _FROM_KEYS.get(only, ("", ""))[1]:
                yield f"{_FROM_KEYS[only][1]}={_python(_only(entry))}"
            case _:
                others[path] = entry
    yield from (f"{name}={_python(values)}" for name, values in named.items() if values)
    if others:
        yield f"options={_python(others)}"


def _flatten(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Keys with their values as options set them; ``{min, max}`` of a dimension is one value."""
    is_dimension = re.fullmatch(r"models\.[^.]+\.dims\.[^.]+", key)
    if isinstance(value, dict) and value and not is_dimension:
        for name, entry in value.items():
            yield from _flatten(f"{key}.{name}", entry)
    else:
        yield key, value


def _size(size: Any) -> str:
    return f"{size.get('min', '')}..{size.get('max', '')}" if isinstance(size, dict) else str(size)


def _list_text(value: Any, *, brackets: bool = False) -> str:
    if not isinstance(value, list):
        return str(value)
    text = ",".join(_list_text(entry, brackets=True) for entry in value)
    return f"[{text}]" if brackets else text


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _written(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**30)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("...").strip()


def _python(value: Any) -> str:
    """A Python literal, with words that represent a value (SIZE, …) unquoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}": {_python(entry)}' for name, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        ends = "()" if isinstance(value, tuple) else "[]"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return ends[0] + ", ".join(map(_python, value)) + comma + ends[1]
    if isinstance(value, str) and not (value.isupper() or value == "…"):
        return f'"{value}"'
    return str(value)
