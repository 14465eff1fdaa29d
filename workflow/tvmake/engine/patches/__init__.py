"""What cannot be had of Snakemake through its public interfaces: one module a patch, each with the releases that need it, the change
that was proposed for Snakemake (the ``.patch`` file beside it), and a test that says when to remove it.
"""

from importlib import metadata

from packaging.specifiers import SpecifierSet
from packaging.version import Version


def is_needed(affected: str) -> bool:
    """Whether the installed Snakemake is one of the ``affected`` releases (``>=9.27,<10``)."""
    return Version(metadata.version("snakemake")) in SpecifierSet(affected)
