"""The last time Snakemake was asked what is to be done, and whether that was nothing."""

import argparse
import time
from collections.abc import Sequence

from tvmake.artifact.known_digests import SETTLED_NS
from tvmake.cli import unchanged
from tvmake.cli.planned_jobs import PlannedJob
from tvmake.cli.rounds import Make, Plan

LONG_S = 60.0
SHARE = 20
"""A run that took longer than both of these is worth one more look: ``LONG_S``, and ``SHARE`` times what a look takes."""


class LastLook:
    """Notes what Snakemake says and whether it was told to make something since.

    Args:
        plan: asks Snakemake what it would run.
        make: has Snakemake run.
    """

    def __init__(self, plan: Plan, make: Make):
        self._plan, self._make = plan, make
        self._began = time.monotonic()
        self._took_s = 0.0
        self.found_nothing: unchanged.Look | None = None
        """From before the last look, if that found nothing to do and nothing has been made since."""

    def plan(self, args: argparse.Namespace) -> Sequence[PlannedJob] | None:
        """Look."""
        began, look = time.monotonic(), unchanged.begin()
        jobs = self._plan(args)
        self._took_s = time.monotonic() - began
        self.found_nothing = look if jobs is not None and not jobs else None
        return jobs

    def make(self, args: argparse.Namespace) -> bool:
        """Have something made."""
        self.found_nothing = None
        unchanged.forget()
        return self._make(args)

    def confirm(self, args: argparse.Namespace) -> None:
        """After a long run, look once more, so that the next one need not."""
        if self.found_nothing is None and time.monotonic() - self._began > max(LONG_S, SHARE * self._took_s):
            time.sleep(1.1 * SETTLED_NS / 1e9)  # what was made last must be older than that
            self.plan(args)
