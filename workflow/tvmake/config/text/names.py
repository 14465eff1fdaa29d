"""Names that Snakemake does not accept in a path."""

import re

REPEATING = re.compile(r"(.+?)\1{19,}$")
"""Names that end in one part twenty times or more, which Snakemake takes for an endless recursion."""
