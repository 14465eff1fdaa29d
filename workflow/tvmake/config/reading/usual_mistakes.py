"""What to write instead of keys, names and values that are right in other programs, or in another place of a config."""

import json
import re
from typing import Any

from tvmake.config.reading.former_keys import KeyPath
from tvmake.config.text.target import OTHER_OPTIONS


def of_key(path: KeyPath, given: Any) -> str | None:
    """What to do about an unknown key, where that follows from its name and place."""
    name = path[-1]
    if len(path) == 3 and path[0] == "targets" and name in (*OTHER_OPTIONS, "keys"):
        return f"write attributes: {{{name}: {json.dumps(given)}}}"
    return None


def of_name(path: KeyPath) -> str | None:
    """What to write for a target that stands where its name is expected."""
    text = path[-1].strip()
    if path[:-1] == ("targets",) and re.search(r"\s-|^\{", text):
        quotation = "'" if '"' in text else '"'
        return f"give it a name: targets: {{NAME: {quotation}{text}{quotation}}}"
    return None


def of_number(path: KeyPath, given: Any) -> str | None:
    """What to write for a number that stands for none."""
    if path[-2:-1] == ("shape",) and given == -1:
        return "write a name, such as batch, for an extent that varies"
    return None


def of_null(given: str, path: KeyPath, *, takes_null: bool) -> str | None:
    """What to write for a word that stands for no value, or for all there are.

    Args:
        takes_null: the key may be ``null``.
    """
    is_all = path[-1:] == ("limit",) and given.strip().lower() == "all"
    return f"write {path[-1]}: null" if takes_null and (is_all or given.strip().lower() == "none") else None
