"""Reference of all config keys in Markdown.

``python -m tvmake.config.documents.reference > docs/reference/config-reference.md``
"""

import json
import sys
from collections.abc import Collection
from typing import Any

from tvmake.config.documents.schema import config_schema
from tvmake.config.root import Config

HEAD = """\
# Config reference

Every key, with its type and default. [config.md](../guides/config.md) explains how they work together. This page is generated from
the config models: `python -m tvmake.config.documents.reference > docs/reference/config-reference.md`.
"""

BAR = "\\|"
"""An escaped bar in a table cell."""

Schema = dict[str, Any]


def reference() -> str:
    """Return the text of the page."""
    schema = config_schema()
    definitions: Schema = schema["$defs"]
    complete = Config.model_json_schema()
    paths = _paths(schema)
    parts = [HEAD, "## Top level\n\n" + _table(schema, complete["required"], paths)]
    for name, path in paths.items():
        if name == "Goals":
            continue  # the keys of PrecisionGoals without per_precision
        required = complete["$defs"][name].get("required", [])
        text = definitions[name].get("description", "")
        parts.append(f"## `{path}`\n\n{_prose(text)}\n\n{_table(definitions[name], required, paths)}")
    return "\n".join(parts)


def _paths(schema: Schema) -> dict[str, str]:
    """Return each model's first key path, by the model's name, in the order of the page."""
    general = {name for entry in schema["properties"].values() for name in _models_in(entry)}
    paths: dict[str, str] = {}

    def visit(name: str, path: str) -> None:
        if name in paths:
            return
        model = schema["$defs"][name]
        via = model["properties"].get("via", {}).get("enum")
        paths[name] = f"{path} (via: {via[0]})" if via else path
        for key, entry in model["properties"].items():
            for below in _models_in(entry):
                if below not in general:  # `models.<name>.build` is described at `build`
                    visit(below, f"{path}.{_heading(key, entry)}")

    for key, entry in schema["properties"].items():
        for name in _models_in(entry):
            visit(name, _heading(key, entry))
    if "Goals" in paths:
        paths["Goals"] = paths["PrecisionGoals"]
    return paths


def _table(model: Schema, required: Collection[str], paths: dict[str, str]) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, entry in model["properties"].items():
        default = "required" if key in required else _default(entry)
        meaning = _prose(entry.get("description", ""))
        rows.append(f"| `{key}` | {_type(entry, paths)} | {default} | {meaning.replace('|', BAR)} |")
    return "\n".join(rows) + "\n"


def _default(entry: Schema) -> str:
    value = entry.get("default")
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(entry: Schema, paths: dict[str, str]) -> str:
    """Describe a type: ``int``, ``a, b or c``, ``list of text``, ``mapping``."""
    if "$ref" in entry:
        path = paths[entry["$ref"].rpartition("/")[2]]
        return f"[{'mapping' if '(' not in path else path.partition(' ')[2]}](#{_anchor(path)})"
    if "anyOf" in entry:
        kinds = [_type(branch, paths) for branch in entry["anyOf"] if branch != {"type": "null"}]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in entry:
        choices = [value for value in entry["enum"] if value is not None]
        return "a target tag" if len(choices) > 20 else ", ".join(f"`{value}`" for value in choices)
    if "const" in entry:
        return f"`{entry['const']}`"
    types = [entry["type"]] if isinstance(entry.get("type"), str) else entry.get("type", [])
    kind = next((name for name in types if name != "null"), "anything")
    if kind == "array":
        if "prefixItems" in entry:
            return "[" + ", ".join(_type(part, paths) for part in entry["prefixItems"]) + "]"
        return f"list of {_type(entry['items'], paths)}" if entry.get("items") else "list"
    if kind == "object":
        values = entry.get("additionalProperties")
        return f"mapping of names to {_type(values, paths)}" if isinstance(values, dict) and values else "mapping"
    word = {"string": "text", "integer": "int", "number": "number", "boolean": "bool"}.get(kind, kind)
    bounds = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}"}
    limits = [form.format(f"{entry[key]:g}") for key, form in bounds.items() if key in entry]
    return f"{word} {' and '.join(limits)}".strip()


def _models_in(entry: Any) -> list[str]:
    """Return the models that a key's value may be or contain."""
    if isinstance(entry, dict):
        models = [entry["$ref"].rpartition("/")[2]] if "$ref" in entry else []
        return list(
            dict.fromkeys(
                models + [name for key, value in entry.items() if key != "default" for name in _models_in(value)]
            )
        )
    return [name for part in entry for name in _models_in(part)] if isinstance(entry, list) else []


def _heading(key: str, entry: Schema) -> str:
    """``models.<name>``, ``passes[]``, ``build``."""
    branches = entry.get("anyOf", [entry])
    if any("additionalProperties" in branch for branch in branches):
        return f"{key}.<name>"
    return f"{key}[]" if any("items" in branch and _models_in(branch["items"]) for branch in branches) else key


def _anchor(path: str) -> str:
    """Return a heading's anchor in the form of GitHub and MkDocs."""
    return "".join(letter for letter in path.lower().replace(" ", "-") if letter.isalnum() or letter in "_-")


def _prose(text: str) -> str:
    """Format a description as Markdown; angle brackets outside code are escaped."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "\\<") for index, part in enumerate(parts))


if __name__ == "__main__":
    sys.stdout.write(reference())
