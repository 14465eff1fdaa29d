"""Where tvmake keeps things on this machine: its home, caches and data, and Snakemake's state in a project.

``TVMAKE_HOME`` replaces the user's directories. Every process of tvmake imports this module, so it imports little.
"""

import os
from pathlib import Path

HOME_VARIABLE = "TVMAKE_HOME"
"""Names the directory that holds everything of tvmake's that is not part of a project."""

SNAKEMAKE_STATE = Path(".snakemake")
"""Snakemake's directory in a project, where tvmake has its notes on that project as well."""

LOGS = "logs"
"""The directory of logs in a project."""


def home() -> Path | None:
    """The directory that ``TVMAKE_HOME`` names; None where it is unset or empty."""
    directory = os.environ.get(HOME_VARIABLE)
    return Path(directory) if directory else None


def cache_directory(name: str) -> Path:
    """``$TVMAKE_HOME/<name>``, or a directory of the user's cache: what can be made again."""
    directory = home()
    if directory is None:
        from platformdirs import user_cache_path

        directory = user_cache_path("tvmake")
    return directory / name


def data_directory(name: str) -> Path:
    """``$TVMAKE_HOME/<name>``, or a directory of the user's data: what is kept for good."""
    directory = home()
    if directory is None:
        from platformdirs import user_data_path

        directory = user_data_path("tvmake")
    return directory / name
