"""The locations of tvmake's own files: its home, caches and data, and Snakemake's state in a project.

``TVMAKE_HOME`` replaces the user's directories. Every process of tvmake imports this module, so it imports little.
"""

import os
from pathlib import Path

HOME_VARIABLE = "TVMAKE_HOME"
"""The variable for the directory of all of tvmake's files that do not belong to a project."""

SNAKEMAKE_STATE = Path(".snakemake")
"""Snakemake's state directory in a project; tvmake stores its notes on the project there too."""


def home() -> Path | None:
    """The directory in ``TVMAKE_HOME``; None if the variable is unset or empty."""
    directory = os.environ.get(HOME_VARIABLE)
    return Path(directory) if directory else None


def cache_directory(name: str) -> Path:
    """``$TVMAKE_HOME/<name>``, or a directory of the user's cache, for files that can be recomputed."""
    directory = home()
    if directory is None:
        from platformdirs import user_cache_path

        directory = user_cache_path("tvmake")
    return directory / name


def data_directory(name: str) -> Path:
    """``$TVMAKE_HOME/<name>``, or a directory of the user's data, for files that cannot be recomputed."""
    directory = home()
    if directory is None:
        from platformdirs import user_data_path

        directory = user_data_path("tvmake")
    return directory / name
