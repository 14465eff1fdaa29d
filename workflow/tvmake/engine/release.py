"""The supported releases of Snakemake, from the package's metadata."""

from importlib import metadata

from packaging.requirements import Requirement

from tvmake.errors import MachineError

PACKAGE = "snakemake"


def check_release() -> None:
    """Refuse a Snakemake outside the supported range.

    Raises:
        MachineError: it is not supported.
    """
    installed = metadata.version(PACKAGE)
    (needed,) = [
        requirement
        for requirement in map(Requirement, metadata.requires("tvmake") or ())
        if requirement.name == PACKAGE
    ]
    if not needed.specifier.contains(installed, prereleases=True):
        raise MachineError(
            f"snakemake {installed}",
            f"tvmake works with snakemake {needed.specifier}",
            f"pip install '{PACKAGE}{needed.specifier}'",
        )
