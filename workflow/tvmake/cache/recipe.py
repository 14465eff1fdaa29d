"""A stage's declaration of what its result depends on, in addition to its options, inputs and code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tvmake.targets.options import TargetOptions
    from tvmake.transform.options import UserPass


@dataclass(frozen=True)
class Recipe:
    """How to compute the key of a stage's result; every function takes the stage's request.

    Stages without a recipe are not cached: they measure, use a device, or read the records store, which changes.
    """

    refusal: Callable[[Any], str | None] | None = None
    """Why a request's result may depend on something outside the key; None if it does not."""
    user_passes: Callable[[Any], Sequence[UserPass]] | None = None
    """Passes of the user that the stage runs. Their code may read anything, so a result with them is not cached."""
    target: Callable[[Any], tuple[str, TargetOptions]] | None = None
    """Name and config of the target that code is generated for."""
    is_linked: bool = False
    """Whether the target's linker is used, which is then part of the key."""
    files: Callable[[Any], Mapping[str, Path]] | None = None
    """Files that only the request names, by a unique name."""
    is_machine_independent: bool = False
    """Whether bytes are only copied, so that processor and interpreter do not matter."""
