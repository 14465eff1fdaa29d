"""The JSON Schema of a config file, for editors: ``python -m tvmake.config.documents.schema > config/schema.json``.

The schema describes one file. A file may be an overlay, so no key is required, and any key may be null. ``tvmake check``
checks the merged config (references between keys, a missing source).
"""

import json
import sys
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tvmake.config.base import pattern_of
from tvmake.config.root import Config
from tvmake.config.validation import DEFAULT_GOALS
from tvmake.quantize.precision import BasePrecision
from tvmake.targets.catalogue.entries import catalogue
from tvmake.targets.catalogue.tags import known_tags
from tvmake.targets.options import TargetKind
from tvmake.transform.options import PythonName

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


class _Generator(GenerateJsonSchema):
    """Write only the explicitly set keys of models in defaults."""

    def encode_default(self, dft: Any) -> Any:
        return super().encode_default(_compact(dft))


def config_schema() -> Schema:
    """Return the schema as a mapping; keys, defaults and descriptions come from the config models."""
    schema = Config.model_json_schema(schema_generator=_Generator)
    definitions: Schema = schema["$defs"]
    in_lists = _names_in_lists(schema)
    models = {"": schema, **definitions}
    for name, model in models.items():
        properties = model.get("properties", {})
        for key, entry in properties.items():
            properties[key] = _property(entry)
        if name not in in_lists:  # overlays replace whole lists, so list entries are complete
            model.pop("required", None)
        model.pop("title", None)
        _tidy_description(model)
    _accept_shorthands(schema)
    _merge_functions(schema)
    head = {"$schema": DIALECT, "title": "tvmake config"}
    return {**head, **_collapse_nullable(schema)}


def _compact(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, dict):
        return {key: _compact(entry) for key, entry in value.items()}
    return value


def _property(entry: Schema) -> Schema:
    """Tidy one key's schema: no generated title, names checked, null accepted."""
    entry = _simplify_names(entry)
    entry.pop("title", None)
    if entry.get("default", ...) in (None, {}, []):
        entry.pop("default", None)  # the description mentions it
    _tidy_description(entry)
    return _nullable(entry)


def _simplify_names(entry: Any) -> Any:
    """Rewrite mappings with constrained keys as ``propertyNames`` and ``additionalProperties``."""
    if isinstance(entry, list):
        return [_simplify_names(part) for part in entry]
    if not isinstance(entry, dict):
        return entry
    entry = {key: value if key == "default" else _simplify_names(value) for key, value in entry.items()}
    if entry.pop("discriminator", None):
        # The discriminator may be in another file.
        entry["anyOf"] = entry.pop("oneOf")
    patterns = entry.pop("patternProperties", None)
    if patterns:
        ((pattern, values),) = patterns.items()
        entry["propertyNames"] = {"pattern": pattern, **entry.get("propertyNames", {})}
        entry["additionalProperties"] = values
    if isinstance(entry.get("additionalProperties"), dict):
        entry["additionalProperties"] = _nullable(entry["additionalProperties"])
    return entry


def _nullable(entry: Schema) -> Schema:
    """Accept null as well, with which an overlay removes a key."""
    if "type" not in entry and not {"$ref", "anyOf", "enum", "const"} & entry.keys():
        return entry  # accepts any value
    if "anyOf" in entry:
        branches = entry["anyOf"]
        return entry if {"type": "null"} in branches else {**entry, "anyOf": [*branches, {"type": "null"}]}
    notes: Schema = {key: entry[key] for key in ("description", "default", "deprecated") if key in entry}
    return {**notes, "anyOf": [{key: value for key, value in entry.items() if key not in notes}, {"type": "null"}]}


def _accept_shorthands(schema: Schema) -> None:
    """Add the short forms and the values that validators accept beyond the models' fields."""
    properties, definitions = schema["properties"], schema["$defs"]
    _prepend(
        properties["precisions"], {"type": "array", "items": {"enum": list(get_args(BasePrecision))}, "minItems": 1}
    )
    named = [*get_args(TargetKind), *catalogue()]
    _prepend(properties["targets"], {"type": "array", "items": {"enum": named}, "minItems": 1})
    _prepend(properties["targets"]["anyOf"][1]["additionalProperties"], {"type": "string"})
    for kind in ("boolean", "string"):
        _prepend(properties["cache"], {"type": kind})
    _prepend(definitions["TargetConfig"]["properties"]["host"], {"type": "string"})
    passes = definitions["TransformOptions"]["properties"]["passes"]["anyOf"][0]
    pattern = pattern_of(PythonName)
    passes["items"] = {"anyOf": [{"type": "string", "pattern": pattern}, passes["items"]]}
    definitions["TargetConfig"]["properties"]["tag"]["anyOf"][0]["enum"] = [*known_tags(), *catalogue()]
    per_precision = definitions["PrecisionGoals"]["properties"]["per_precision"]["anyOf"][0]
    per_precision["propertyNames"] = {"enum": list(DEFAULT_GOALS)}


def _merge_functions(schema: Schema) -> None:
    """Describe models with and without functions by one definition: no key is required, so that they would not differ."""
    definitions = schema["$defs"]
    model, functions = definitions["ModelConfig"], definitions.pop("FunctionsConfig")
    model["properties"] |= {
        name: entry for name, entry in functions["properties"].items() if name not in model["properties"]
    }
    models = schema["properties"]["models"]
    models["anyOf"][0]["additionalProperties"] = _nullable({"$ref": "#/$defs/ModelConfig"})


def _prepend(entry: Schema, branch: Schema) -> None:
    entry["anyOf"].insert(0, branch)


def _collapse_nullable(schema: Any) -> Any:
    """Rewrite ``anyOf`` of one type and null as a list of types, which editors show better."""
    if isinstance(schema, list):
        return [_collapse_nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _collapse_nullable(value) for key, value in schema.items()}
    branches = schema.get("anyOf")
    if isinstance(branches, list) and len(branches) == 2 and branches[1] == {"type": "null"}:
        only = branches[0]
        if "enum" in only or "const" in only:
            schema.pop("anyOf")
            schema["enum"] = [*only.get("enum", [only.get("const")]), None]
        elif isinstance(only.get("type"), str):
            schema.pop("anyOf")
            schema |= {**only, "type": [only["type"], "null"]}
    return schema


def _names_in_lists(schema: Any) -> set[str]:
    """Return the names of the definitions that list entries refer to."""
    names: set[str] = set()
    if isinstance(schema, dict):
        items = schema.get("items")
        if isinstance(items, dict) and "$ref" in items:
            names.add(items["$ref"].rpartition("/")[2])
        for value in schema.values():
            names |= _names_in_lists(value)
    elif isinstance(schema, list):
        for value in schema:
            names |= _names_in_lists(value)
    return names


def _tidy_description(entry: Schema) -> None:
    if "description" in entry:
        entry["description"] = " ".join(entry["description"].split()).replace("``", "`")


def as_text() -> str:
    """Return the text of ``config/schema.json``."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
