"""Make the relative paths of a config layer absolute, for a config that is written into another directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PATHS = (
    "models.*.files", "models.*.dataset.path", "models.*.dataset.label_names", "tuning.frozen", "tuning.store", "cache.where",
    "cache.secret_file",
)  # fmt: skip
"""Keys whose values are paths; * is any name."""


def with_absolute_paths(layer: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """A layer in which paths do not depend on the working directory.

    Args:
        layer: not yet validated; values of another type are left to the validation.
        root: the directory that relative paths start at.
    """
    result: dict[str, Any] = dict(layer)
    for path in PATHS:
        result = _with_absolute(result, path.split("."), root)
    return result


def _with_absolute(value: Any, keys: Sequence[str], root: Path) -> Any:
    if not keys:
        if isinstance(value, list):
            return [_with_absolute(item, (), root) for item in value]
        is_relative = isinstance(value, str) and value and "://" not in value and not value.startswith(("~", "-", "$"))
        return str(root / value) if is_relative else value
    if not isinstance(value, Mapping):
        return value
    names = value if keys[0] == "*" else [keys[0]]
    return {**value, **{name: _with_absolute(value[name], keys[1:], root) for name in names if name in value}}
