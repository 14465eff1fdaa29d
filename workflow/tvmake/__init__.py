"""tvmake: a declarative pipeline from trained models to tuned, validated packages built with Apache TVM."""

from __future__ import annotations

TYPE_CHECKING = False  # every step imports this module; typing would cost it 2 ms
if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["__version__", "snakefile"]

__version__ = "0.2.0"


def snakefile() -> Path:
    """The workflow, for another one that takes it: ``module tvmake: snakefile: str(tvmake.snakefile())``."""
    from tvmake.storage.resources import snakefile as workflow

    return workflow()
