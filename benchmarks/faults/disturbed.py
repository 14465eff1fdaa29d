"""A running project with the operations that faults need."""

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from killing import files_below

from faults.project import FaultyProject


class Disturbed:
    """A running project, with the information for faults."""

    def __init__(self, project: FaultyProject, rng: random.Random, library: Path, longest_s: float):
        self.project, self.rng, self.library, self.longest_s = project, rng, library, longest_s
        self.command: tuple[str, ...] = ("tvmake", "make")
        self.arguments: list[str] = []
        """For the command."""
        self.after: list[Callable[[], None]] = []
        """Done before the command is given again."""
        self.others: list[tuple[FaultyProject, subprocess.Popen[str]]] = []
        self.altered: dict[Path, bytes] = {}
        """Results that were given another content, and that content."""
        self.notes: list[str] = []
        self.problems: list[str] = []

    def at_some_time(self, run: subprocess.Popen[str]) -> bool:
        """Wait a random while; whether the run is still on."""
        until = time.monotonic() + self.rng.uniform(0.8, self.longest_s)
        while time.monotonic() < until and run.poll() is None:
            time.sleep(0.02)
        return run.poll() is None

    def files(self, *roots: Path) -> list[Path]:
        """Files below, in an order that the seed fixes."""
        return sorted(path for root in roots for path in files_below(root) if not path.name.startswith(".tvmake-"))
