"""Exported records for `tvmake records import`: only sound lines enter the store."""

import gzip
import json
import os
import random
from pathlib import Path

from .cases import Case
from .mutate import dumps, mutate_bytes, mutate_json

FILE = "r.jsonl.gz"


class Records:
    """Bytes of the compressed file, of its lines, and values in them."""

    preload = ("tvmake.cli.app", "tvmake.records.sharing.exchange", "tvmake.records.store")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.records.examples import CONTEXT, CONV, DENSE, OTHER_CONTEXT, record, verdict

        from tvmake.records.sharing.exchange import all_workloads, export_records
        from tvmake.records.store import RecordStore

        os.environ["TVMAKE_HOME"] = str(samples / "home")
        store = RecordStore()
        first = record(1)
        store.append(CONTEXT, CONV, [first, record(2, ms=None), verdict(first, right=True)])
        store.append(CONTEXT, DENSE, [record(3)])
        store.append(OTHER_CONTEXT, CONV, [record(4)])
        export_records(store, all_workloads(store), samples / FILE)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        sound = gzip.decompress((samples / FILE).read_bytes())
        how = chance.choice(("packed", "bytes", "values", "bomb"))
        match how:
            case "packed":
                data = mutate_bytes((samples / FILE).read_bytes(), chance)
            case "bytes":
                data = gzip.compress(mutate_bytes(sound, chance))
            case "values":
                lines = sound.splitlines()
                index = chance.randrange(len(lines))
                lines[index] = dumps(mutate_json(json.loads(lines[index]), chance))
                data = gzip.compress(b"\n".join(lines) + b"\n")
            case "bomb":
                filler = chance.choice((b"\0", b"\n", b"[", b"x")) * (300 << 20)
                data = gzip.compress(sound + filler, compresslevel=1)
        (directory / FILE).write_bytes(data)

        def wrong() -> str | None:
            kept = {
                line
                for file in (directory / "store").rglob("records*.jsonl")
                for line in file.read_bytes().splitlines()
            }
            digests = {json.loads(line).get("sha256") for line in sound.splitlines()}
            strange = [line for line in kept if json.loads(line).get("sha256") not in digests]
            return f"took {strange[0][:100]!r}" if strange else None

        commands = [["records", "import", FILE, "--store", "store"], ["records", "verify", "--store", "store"]]
        return Case(how, commands, wrong, ("store/",))
