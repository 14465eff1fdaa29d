"""Where the workflow's own files are: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def snakefile() -> Path:
    """The Snakefile, with ``rules/`` and ``profiles/`` beside it."""
    inside = PACKAGE / "house" / "Snakefile"
    return inside if inside.is_file() else PACKAGE.parents[1] / "Snakefile"
