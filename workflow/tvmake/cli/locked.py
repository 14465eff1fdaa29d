"""``tvmake make --locked``: rebuild a locked run and compare every byte."""

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
    """A locked run to rebuild in the working directory.

    Raises:
        InputError: the lock is missing, damaged or has another version.
        UsageError: only a part of the run is requested.
    """

    def __init__(self, path: Path, words: list[str]):
        from tvmake.lock.document import read_lock

        if words and not words[0].startswith("-"):
            raise UsageError("--locked", f"rebuilds and compares the whole run, not only {words[0]}", "omit the files")
        self.path = path
        self.lock = read_lock(path)

    def layer(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The config layer of ``--set``, with records and layouts from the lock."""
        from tvmake.config.reading.load import merge
        from tvmake.lock.rebuild import frozen_layer

        return merge(settings, frozen_layer(self.path))

    def config(self, files: list[Path] | None) -> list[Path]:
        """The given config files, else the default one, else the lock's own config."""
        from tvmake.cli.configs import config_files
        from tvmake.lock.rebuild import config_of

        try:
            return config_files(files)
        except InputError:
            print(f"note: no config here; using the one in {self.path}", file=sys.stderr)
            return [config_of(self.lock, STATE)]

    def packages(self, plan: Plan) -> list[str]:
        """The packages that Snakemake builds."""
        from tvmake.lock.rebuild import packages

        return packages(plan)

    def make(self, plan: Plan, run: Callable[[], int], dry_run: bool) -> int:
        """Report differences from the lock, build the packages, and compare them.

        Args:
            run: builds them; returns Snakemake's exit code.

        Raises:
            InputError: a file differs from the lock.
        """
        from tvmake.engine.progress.handler import Run
        from tvmake.lock.differences import differences
        from tvmake.lock.rebuild import compare, explain, modification_times

        changes = differences(plan, self.lock)
        self._announce([difference.text for difference in changes])
        before = modification_times(plan)
        code = run()
        if code or dry_run or not Run.made:
            return code
        outcome = compare(plan, self.lock, before)
        if outcome.wrong:
            raise explain(plan, outcome, changes, self.path)
        print(f"{self.path}: all {outcome.equal} files are the same, byte for byte ({outcome.fresh} rebuilt)")
        if not outcome.fresh:
            print("note: all files existed already; --forceall rebuilds them", file=sys.stderr)
        return 0

    def _announce(self, texts: list[str]) -> None:
        from tvmake.process.output import printable

        if not texts:
            print(f"nothing differs from {self.path}", file=sys.stderr)
            return
        print(f"differences from {self.path}:", file=sys.stderr)
        for text in texts:
            print(f"  {printable(text)}", file=sys.stderr)
