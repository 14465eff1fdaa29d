"""Decide which releases of TVM need a work-around."""

from functools import cache
from importlib import metadata

from packaging.specifiers import SpecifierSet


@cache
def is_affected(releases: str) -> bool:
    """Whether the installed TVM matches a version specifier (``<0.28``)."""
    return SpecifierSet(releases).contains(metadata.version("apache-tvm"), prereleases=True)
