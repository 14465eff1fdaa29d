"""A model in its framework, ready to be timed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prepared:
    """``run`` computes the outputs once, of inputs that are in the framework's memory already."""

    framework: str
    """Library and version: ``onnxruntime 1.31.1``."""
    run: Callable[[], object]
    step: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Computes the outputs, by name, from inputs by name: arrays, or outputs of an earlier step. None for a framework whose steps are
    not timed."""
