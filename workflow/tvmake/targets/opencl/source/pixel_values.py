"""Store the current value of a texture's pixel.

Each store reads the local buffer directly. Repair: `opencl-texel-values`.
"""

import re

VALUE = re.compile(
    r"^\s*(?:float|half)4 (?P<name>v_\w*) = (?P<value>vload4\(0, pixel\w* \+ [^;]+\)|pixel\w*\[[^\];]*\]);$",
    re.MULTILINE,
)
"""A variable with a pixel's value; ``pixel`` is the name of ``texture_store``'s buffers."""

STORE = re.compile(r"(?P<store>write_image[fh]\([^;]*as_(?:float|half)4\()(?P<name>v_\w*)(?P<end>\)\);)")


def with_fresh_pixels(source: str) -> str:
    """A kernel's source in which each store reads the buffer."""
    values: dict[str, str] = {}

    def with_value(store: re.Match[str]) -> str:
        return store["store"] + values.get(store["name"], store["name"]) + store["end"]

    lines = []
    for line in source.splitlines(keepends=True):
        if match := VALUE.match(line):
            values[match["name"]] = match["value"]
        lines.append(STORE.sub(with_value, line))
    return "".join(lines)
