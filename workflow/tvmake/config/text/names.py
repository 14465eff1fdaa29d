"""Names that Snakemake cannot have in a file's path."""

import re

REPEATING = re.compile(r"(.+?)\1{19,}$")
"""The end of a name that Snakemake takes for an endless recursion: one part, twenty times or more."""
