"""Limits of config and command line; without pydantic, to keep ``tvmake --help`` fast."""

MOST_REPETITIONS = 1_000_000
"""Largest number of runs or samples. More take longer than a day and are likely a typing error."""
