"""Decide whether the installed TVM needs the work-arounds."""

from functools import cache
from importlib import metadata

from packaging.specifiers import SpecifierSet

RELEASES = "<0.28"
"""Releases with the defects that are worked around in `targets` and `codegen`."""


@cache
def is_affected() -> bool:
    """Whether the installed TVM is one of :data:`RELEASES`."""
    return SpecifierSet(RELEASES).contains(metadata.version("apache-tvm"), prereleases=True)
