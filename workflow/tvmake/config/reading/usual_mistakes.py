"""Remedies for keys, names and values that are valid in other programs or elsewhere in a config."""

import json
import re
from typing import Any

from tvmake.config.reading.former_keys import KeyPath
from tvmake.config.text.target import OTHER_OPTIONS


def of_key(path: KeyPath, given: Any) -> str | None:
    """Return the remedy for an unknown key, if its name and path determine it."""
    name = path[-1]
    if len(path) == 3 and path[0] == "targets" and name in (*OTHER_OPTIONS, "keys"):
        return f"write attributes: {{{name}: {json.dumps(given)}}}"
    return None


def of_name(path: KeyPath) -> str | None:
    """Return the remedy for a target that is written instead of its name."""
    text = path[-1].strip()
    if path[:-1] == ("targets",) and re.search(r"\s-|^\{", text):
        quotation = "'" if '"' in text else '"'
        return f"give it a name: targets: {{NAME: {quotation}{text}{quotation}}}"
    return None


def of_number(path: KeyPath, given: Any) -> str | None:
    """Return the remedy for a number that marks an unknown size."""
    if path[-2:-1] == ("shape",) and given == -1:
        return "write a name, such as batch, for a dynamic dimension"
    return None


def of_null(given: str, path: KeyPath, *, takes_null: bool) -> str | None:
    """Return the remedy for a word that means no value, or all values.

    Args:
        takes_null: whether the key accepts ``null``.
    """
    is_all = path[-1:] == ("limit",) and given.strip().lower() == "all"
    return f"write {path[-1]}: null" if takes_null and (is_all or given.strip().lower() == "none") else None
