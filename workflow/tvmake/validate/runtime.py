"""A source model in its own framework."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np


@dataclass(frozen=True)
class Runtime:
    """``run`` maps inputs to outputs, both by their names in the source; ``name`` is for reports."""

    name: str
    """Library and version that really run the model: ``onnxruntime 1.31.1``."""
    run: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    weights: str | None = None
    """The sha256 of its loaded or random weights, as in the import's record; None if a file has them."""
    reset: Callable[[], None] = lambda: None
    """Resets the states that the source keeps itself."""


def library_version(distribution: str) -> str:
    """A library with its installed version."""
    return f"{distribution} {version(distribution)}"
