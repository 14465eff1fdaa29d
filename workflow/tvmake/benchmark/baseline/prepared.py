"""A model in its framework, ready to be timed."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Prepared:
    """``run`` computes the outputs once, of inputs that are in the framework's memory already."""

    framework: str
    """Library and version: ``onnxruntime 1.31.1``."""
    run: Callable[[], object]
