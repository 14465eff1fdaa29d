"""Locks for commands that read one."""

import json
import random
import shutil
from pathlib import Path

from .cases import Case
from .locked_run import locked_run
from .mutate import dumps, mutate_bytes, mutate_json


class Locks:
    """Bytes and values of a lock; a bundle of what it locks has to hold the packages that it names, or is not written."""

    preload = ("tvmake.cli.app", "tvmake.bundle.write", "tvmake.plan.plan")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.lock.made import CONFIG

        from tvmake.storage.files import write_json

        with locked_run(samples):
            write_json(samples / "run" / "tvmake.yaml", CONFIG)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        shutil.copytree(samples / "run", directory, dirs_exist_ok=True)
        lock = directory / "run.lock"
        sound = lock.read_bytes()
        how = chance.choice(("bytes", "values", "values"))
        lock.write_bytes(
            mutate_bytes(sound, chance) if how == "bytes" else dumps(mutate_json(json.loads(sound), chance))
        )

        def wrong() -> str | None:
            named = {artifact["path"]: artifact["sha256"] for artifact in json.loads(lock.read_bytes())["artifacts"]}
            from tvmake.storage.files import digest_file

            packages = [path for path in named if path.endswith("/package.tar")]
            bad = [path for path in packages if digest_file(directory / "results" / path) != named[path]]
            return f"{bad[0]} is not the lock's" if bad else None

        return Case(how, [["bundle", "export", "b.tar"]], wrong, ("b.tar", ".snakemake/"))
