"""The reference of every config key as Markdown: ``python -m tvmake.config.reference > docs/config-reference.md``."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from tvmake.config.root import Config
from tvmake.config.schema import config_schema

HEAD = """\
# Config reference

Every key, with its type and default. [config.md](config.md) explains how they work together. This page is generated from
the config models: `python -m tvmake.config.reference > docs/config-reference.md`.
"""

Schema = dict[str, Any]


def reference() -> str:
    """The page's text."""
    schema = config_schema()
    definitions: Schema = schema["$defs"]
    parts = [HEAD]
    written: set[str] = set()
    parts.append("## Top level\n\n" + _table(schema, Config, definitions))
    for key, entry in schema["properties"].items():
        for name in _models_in(entry):
            parts += _sections(name, _heading(key, entry), definitions, written)
    return "\n".join(parts)


def _sections(name: str, path: str, definitions: Schema, written: set[str]) -> Iterator[str]:
    """A section for a model, then for the models below it; each model once."""
    if name in written:
        return
    written.add(name)
    model = definitions[name]
    yield f"## `{path}`\n\n{model.get('description', '')}\n\n{_table(model, None, definitions)}"
    for key, entry in model["properties"].items():
        for below in _models_in(entry):
            yield from _sections(below, f"{path}.{_heading(key, entry)}", definitions, written)


def _table(model: Schema, kind: type[BaseModel] | None, definitions: Schema) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, entry in model["properties"].items():
        default = _default(key, entry, kind)
        rows.append(
            f"| `{key}` | {_cell(_type(entry, definitions))} | {default} | {_cell(entry.get('description', ''))} |"
        )
    return "\n".join(rows) + "\n"


def _default(key: str, entry: Schema, kind: type[BaseModel] | None) -> str:
    if kind is not None and kind.model_fields[key].is_required():
        return "required"
    value = entry.get("default")
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(entry: Schema, definitions: Schema) -> str:
    """A type in words: ``int``, ``a, b or c``, ``list of text``, ``mapping``."""
    if "$ref" in entry:
        return "mapping"
    if "anyOf" in entry:
        kinds = [_type(branch, definitions) for branch in entry["anyOf"] if branch != {"type": "null"}]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in entry:
        known = [value for value in entry["enum"] if value is not None]
        return "a target tag" if len(known) > 20 else ", ".join(f"`{value}`" for value in known)
    if "const" in entry:
        return f"`{entry['const']}`"
    types = [entry["type"]] if isinstance(entry.get("type"), str) else entry.get("type", [])
    kind = next((name for name in types if name != "null"), "anything")
    if kind == "array":
        if "prefixItems" in entry:
            return "[" + ", ".join(_type(part, definitions) for part in entry["prefixItems"]) + "]"
        return f"list of {_type(entry['items'], definitions)}" if entry.get("items") else "list"
    if kind == "object":
        values = entry.get("additionalProperties")
        return f"mapping of names to {_type(values, definitions)}" if isinstance(values, dict) and values else "mapping"
    word = {"string": "text", "integer": "int", "number": "number", "boolean": "bool"}.get(kind, kind)
    bounds = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}"}
    limits = [form.format(f"{entry[key]:g}") for key, form in bounds.items() if key in entry]
    return f"{word} {' and '.join(limits)}".strip()


def _models_in(entry: Any) -> list[str]:
    """The models a key's value may be or hold."""
    if isinstance(entry, dict):
        own = [entry["$ref"].rpartition("/")[2]] if "$ref" in entry else []
        return list(
            dict.fromkeys(
                own + [name for key, value in entry.items() if key != "default" for name in _models_in(value)]
            )
        )
    return [name for part in entry for name in _models_in(part)] if isinstance(entry, list) else []


def _heading(key: str, entry: Schema) -> str:
    """``models.<name>``, ``passes[]``, ``build``."""
    branches = entry.get("anyOf", [entry])
    if any("additionalProperties" in branch for branch in branches):
        return f"{key}.<name>"
    return f"{key}[]" if any("items" in branch and _models_in(branch["items"]) for branch in branches) else key


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<name>", "`<name>`")


if __name__ == "__main__":
    sys.stdout.write(reference())
