"""Patches of Snakemake for what its public interfaces do not offer. Each module has the releases that need it, the change that
was proposed to Snakemake (the ``.patch`` file beside it), and a test that shows when to remove it.
"""

from importlib import metadata

from packaging.specifiers import SpecifierSet
from packaging.version import Version


def is_needed(affected: str) -> bool:
    """Whether the installed Snakemake is an affected release (``>=9.27,<10``)."""
    return Version(metadata.version("snakemake")) in SpecifierSet(affected)
