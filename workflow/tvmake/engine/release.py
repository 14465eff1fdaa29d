"""The supported releases of Snakemake, from the package's metadata, and the checkout whose workflow runs."""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tvmake import __version__
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


def check_checkout(snakefile: Path) -> None:
    """Refuse the Snakefile of a checkout of another version than the installed package.

    Raises:
        MachineError: it is of another version.
    """
    package = snakefile.resolve().parent / "workflow" / "tvmake" / "__init__.py"
    found = re.search(r'^__version__ = "(.+)"$', package.read_text(), re.MULTILINE) if package.is_file() else None
    if found and found[1] != __version__:
        raise MachineError(
            str(snakefile),
            f"is of tvmake {found[1]}, and tvmake {__version__} is installed",
            f"pip install -e {snakefile.parent}, or run `tvmake make`, which uses the installed version's workflow",
        )
