"""What a stage's result depends on besides its options, its inputs and its code, as a stage declares it."""

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
    """How the key of a stage's result is made; every function takes the stage's request.

    Stages without a recipe are not cached: they measure, use a device, or read the records store, which changes.
    """

    refusal: Callable[[Any], str | None] | None = None
    """Why the result of a request may depend on more than a key can hold; None if it does not."""
    user_passes: Callable[[Any], Sequence[UserPass]] | None = None
    """Passes of the user that the stage runs. Their code may read anything, so a result with them is not cached."""
    target: Callable[[Any], tuple[str, TargetOptions]] | None = None
    """Name and config of the target that code is generated for."""
    is_linked: bool = False
    """Whether the target's linker is at work, which is then part of the key."""
    files: Callable[[Any], Mapping[str, Path]] | None = None
    """Files that only the request names, by a name that tells them apart."""
    is_machine_independent: bool = False
    """Whether bytes are only moved, so that processor and interpreter do not matter."""
