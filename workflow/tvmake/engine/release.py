"""Which releases of Snakemake this tvmake works with: those that the package's own metadata asks for."""

from importlib import metadata

from packaging.requirements import Requirement

from tvmake.errors import MachineError

PACKAGE = "snakemake"


def check_release() -> None:
    """Refuse a Snakemake outside the supported range.

    Raises:
        MachineError: it is outside.
    """
    found = metadata.version(PACKAGE)
    (needed,) = [one for one in map(Requirement, metadata.requires("tvmake") or ()) if one.name == PACKAGE]
    if not needed.specifier.contains(found, prereleases=True):
        raise MachineError(
            f"snakemake {found}",
            f"tvmake works with snakemake {needed.specifier}",
            f"pip install '{PACKAGE}{needed.specifier}'",
        )
