"""Store a texture's pixel with the value it has at that moment.

Each store reads the local buffer itself. Repair: `opencl-texel-values`.
"""

import re

VALUE = re.compile(
    r"^\s*(?:float|half)4 (?P<name>v_\w*) = (?P<value>vload4\(0, pixel\w* \+ [^;]+\)|pixel\w*\[[^\];]*\]);$",
    re.MULTILINE,
)
"""A variable with a pixel's value; ``pixel`` is what ``texture_store`` calls its buffers."""

STORE = re.compile(r"(?P<store>write_image[fh]\([^;]*as_(?:float|half)4\()(?P<name>v_\w*)(?P<end>\)\);)")


def with_fresh_pixels(source: str) -> str:
    """One kernel's source with the buffer's own value in each store."""
    values: dict[str, str] = {}

    def with_value(store: re.Match[str]) -> str:
        return store["store"] + values.get(store["name"], store["name"]) + store["end"]

    lines = []
    for line in source.splitlines(keepends=True):
        if found := VALUE.match(line):
            values[found["name"]] = found["value"]
        lines.append(STORE.sub(with_value, line))
    return "".join(lines)
