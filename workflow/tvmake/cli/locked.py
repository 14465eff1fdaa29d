"""``tvmake make --locked``: make a locked run again and compare every byte."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.errors import InputError, UsageError
from tvmake.storage.directories import SNAKEMAKE_STATE

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan

STATE = SNAKEMAKE_STATE


class Rebuild:
    """A locked run that is made again in the working directory.

    Raises:
        InputError: the lock is missing, damaged or of another version.
        UsageError: only a part of the run is asked for.
    """

    def __init__(self, path: Path, words: list[str]):
        from tvmake.lock.document import read_lock

        if words and not words[0].startswith("-"):
            raise UsageError(
                "--locked", f"makes and compares the run as a whole, not {words[0]} alone", "leave the files out"
            )
        self.path = path
        self.lock = read_lock(path)

    def layer(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The config layer of ``--set``, and that records and layouts come from the lock."""
        from tvmake.config.reading.load import merge
        from tvmake.lock.rebuild import frozen_layer

        return merge(settings, frozen_layer(self.path))

    def config(self, given: list[Path] | None) -> list[Path]:
        """The config files given, those found here, or else the lock's own config."""
        from tvmake.cli.configs import config_files
        from tvmake.lock.rebuild import config_of

        try:
            return config_files(given)
        except InputError:
            print(f"note: no config here; the one in {self.path} is used", file=sys.stderr)
            return [config_of(self.lock, STATE)]

    def packages(self, plan: Plan) -> list[str]:
        """What Snakemake is asked for."""
        from tvmake.lock.rebuild import packages

        return packages(plan)

    def make(self, plan: Plan, run: Callable[[], int], dry_run: bool) -> int:
        """Say what is other than in the lock, make the packages, and compare.

        Args:
            run: makes them; returns Snakemake's exit code.

        Raises:
            InputError: a file came out differently.
        """
        from tvmake.engine.progress.handler import Run
        from tvmake.lock.differences import differences
        from tvmake.lock.rebuild import compare, explain, modification_times

        found = differences(plan, self.lock)
        self._announce([one.text for one in found])
        before = modification_times(plan)
        code = run()
        if code or dry_run or not Run.made:
            return code
        outcome = compare(plan, self.lock, before)
        if outcome.wrong:
            raise explain(plan, outcome, found, self.path)
        print(f"{self.path}: all {outcome.equal} files are the same, byte for byte ({outcome.fresh} made now)")
        if not outcome.fresh:
            print("note: all were there already; --forceall makes them again", file=sys.stderr)
        return 0

    def _announce(self, texts: list[str]) -> None:
        from tvmake.process.output import printable

        if not texts:
            print(f"everything that {self.path} names is the same here", file=sys.stderr)
            return
        print(f"other than in {self.path}:", file=sys.stderr)
        for text in texts:
            print(f"  {printable(text)}", file=sys.stderr)
