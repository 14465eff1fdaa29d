"""Results of a run elsewhere, for the commands and functions that read them: `show`, `diff`, `tvmake.Results`, the report's history."""

import json
import os
import random
import shutil
import sys
from pathlib import Path

from .cases import Case
from .intermediates import Intermediates
from .mutate import dumps, mutate_bytes, mutate_json

HISTORY = "theirs/history/2026-01-01T000000+0000.json"
MANY = 2_000_000
"""Wrong values in a document made of them."""


class Summaries:
    """Bytes and values of summaries, documents made of mistakes, and other things instead of files."""

    preload = (
        "tvmake.cli.app",
        "tvmake.report.load",
        "tvmake.report.history",
        "tvmake.report.diff",
        "tvmake.api.results",
    )

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        Intermediates().prepare(samples)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        shutil.copytree(samples / "results", directory / "results")
        shutil.copytree(samples / "results", directory / "theirs")
        sound = (samples / "results" / "summary.json").read_bytes()
        name = chance.choice(("theirs/summary.json", "theirs/summary.json", HISTORY))
        file = directory / name
        file.unlink(missing_ok=True)
        how = chance.choice(("bytes", "values", "values", "mistakes", "replaced"))
        match how:
            case "bytes":
                file.write_bytes(mutate_bytes(sound, chance))
            case "values":
                file.write_bytes(dumps(mutate_json(json.loads(sound), chance)))
            case "mistakes":
                file.write_bytes(_mistakes(chance))
            case _:
                chance.choice((os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")))(file)
        commands = [["status", "theirs"], ["diff", "results", "theirs"], _read_by_api, _read_history]
        if name == HISTORY:
            commands = [_read_history]
        chance.shuffle(commands)
        return Case(f"{how} of {name}", commands, lambda: None)


def _read_by_api() -> int:
    import tvmake
    from tvmake.errors import TvmakeError

    try:
        found = tvmake.Results("theirs")
        found._repr_html_()
        found.records()
        for row in found:
            found.best(row.model)
    except TvmakeError as error:
        print(f"error: {error}".splitlines()[0], file=sys.stderr)
        return 1
    return 0


def _read_history() -> int:
    from tvmake.report.history import earlier_runs

    earlier_runs(Path("theirs"))
    return 0


def _mistakes(chance: random.Random) -> bytes:
    """A document of a few megabytes in which everything is wrong."""
    many = chance.choice((b"{}", b"0", b'"x"', b"[]"))
    listed = b",".join([many] * MANY)
    match chance.randrange(4):
        case 0:
            return b'{"rows":[' + listed + b"]}"
        case 1:
            return b"[" + listed + b"]"
        case 2:
            return b'{"schema_version":1,"rows":[{"missed":[' + listed + b'],"metrics":{}}]}'
    return b"{" + b",".join(b'"%d":0' % number for number in range(MANY // 8)) + b"}"
