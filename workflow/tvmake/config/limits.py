"""Limits of what a config and the command line may ask for, without pydantic, which ``tvmake --help`` does not wait for."""

MOST_REPETITIONS = 1_000_000
"""Runs or samples that are more than any device does in a day are a slip of the pen."""
