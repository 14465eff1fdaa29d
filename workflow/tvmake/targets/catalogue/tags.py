"""TVM's own target tags."""

from functools import cache
from importlib import resources


@cache
def known_tags() -> tuple[str, ...]:
    """All target tags of the pinned TVM (``tests/targets/test_tags.py`` compares the list with TVM's)."""
    return tuple(resources.files("tvmake.targets.catalogue").joinpath("tags.txt").read_text().split())
