"""Entries of a cache: a step's result equals the stage's, whatever the cache contains."""

import os
import random
import shutil
from pathlib import Path

from .cases import Case
from .mutate import mutate_bytes


class CacheEntries:
    """Bytes of entries, and swapped entries; a step that could use them, and `tvmake cache verify`."""

    preload = ("tvmake.cli.app", "tvmake.cache.step", "tvmake.stages.registry")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.cache.examples import Run

        from tvmake.config.cache import CacheConfig, as_text

        os.environ["TVMAKE_CACHE"] = as_text(CacheConfig(where=str(samples / "cache")))
        for seed in range(2):
            Run(samples / str(seed), seed=seed).step()

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        from tests.cache.examples import Run

        from tvmake.config.cache import CacheConfig, as_text

        cache = directory / "cache"
        shutil.copytree(samples / "cache", cache)
        os.environ["TVMAKE_CACHE"] = as_text(CacheConfig(where=str(cache)))
        run = Run(directory / "run", seed=0)
        entry = cache / "entries" / run.key
        how = "bytes"
        if chance.random() < 0.1:
            how = "swapped"
            other = Run(directory / "other", seed=1)
            shutil.copyfile(cache / "entries" / other.key, entry)
        else:
            entry.write_bytes(mutate_bytes(entry.read_bytes(), chance))

        def step() -> int:
            run.step()  # compares the outputs with what the stage makes
            return 0

        return Case(
            how,
            [step, ["cache", "verify", "--cache", str(cache)]],
            lambda: None,
            ("cache/", "run/", "other/", ".snakemake/"),
        )
