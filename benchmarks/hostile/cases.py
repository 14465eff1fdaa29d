"""A kind of hostile input: sound samples, mutations, the commands that read them, and the allowed results."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Case:
    """One mutated input, in place."""

    what: str
    """The sample and the mutation, in a few words."""
    commands: Sequence[Sequence[str] | Callable[[], int]]
    """Of tvmake, or functions that give an exit code, one after the other, in the case's directory; the first that refuses ends it."""
    wrong: Callable[[], str | None]
    """What is wrong where all commands accepted it; None where it is right."""
    may_write: tuple[str, ...] = ()
    """Where commands may write below the case's directory, in addition to their home."""
    must_go_on: bool = False
    """Whether a refusal is wrong, as nothing that a user gave is damaged."""
    most_errors: int = 3
    """Maximum number of lines of a clear refusal."""


class Kind(Protocol):
    """A kind of file."""

    preload: Sequence[str]
    """Modules to load once, before the commands' processes are forked."""

    def prepare(self, samples: Path) -> None:
        """Make the sound samples, once."""

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """Put a mutated input into an empty directory."""
