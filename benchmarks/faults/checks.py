"""Conditions on a project after the command has succeeded."""

import difflib
import shutil
from collections.abc import Sequence
from pathlib import Path

from killing import half_written, leftovers, missing, record_lines

from faults.project import FaultyProject
from tvmake.records.store import RecordStore
from tvmake.tune.receipts import Receipt

NEEDED = ("package.tar", "mod.json", "best.json")
"""Results that must be there; others may be missing where nobody needed them again."""


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Files that are other than wanted, and those that are missing."""
    wrong = [name for name, data in found.items() if wanted.get(name) != data]
    changed = [
        line
        for name in wrong
        if name.endswith("best.json")
        for line in difflib.unified_diff(
            wanted.get(name, b"").decode().splitlines(), found[name].decode().splitlines(), lineterm="", n=0
        )
    ]
    told = [f"{name} is wrong" for name in wrong] + ["\n".join(changed)[:3000]] * bool(changed)
    return told + [f"{name} is missing" for name in wanted if name.endswith(NEEDED) and name not in found]


def made_anew(project: FaultyProject, files: list[str], weights: Path, more_trials: int) -> dict[str, bytes]:
    """Files and what they are made from, as an empty directory without the cache makes them of the same records: those
    that the project's receipts tell of (docs/guides/tuning.md)."""
    fresh = FaultyProject(project.workspace / f"fresh-{project.directory.name}")
    fresh.create(weights, more_trials)
    shutil.copytree(project.home, fresh.home)
    store = RecordStore(fresh.home / "records")
    for receipt in project.receipts():
        _cut(store, receipt)
    done = fresh.make("--no-cache", *files)
    if done.returncode:
        return {"an empty directory": (done.stdout + done.stderr)[-500:].encode()}
    return fresh.fixed()


def _cut(store: RecordStore, receipt: Receipt) -> None:
    """Leave the records that a receipt tells of, and all that checks found."""
    told = {one.digest for one in store.load(receipt.place, receipt.workload)[: receipt.records]}
    store.journal(receipt.place, receipt.workload).rewrite(lambda line: line.kind != "record" or line.digest in told)


def look(
    project: FaultyProject, seen: dict[str, set[bytes]], wanted: dict[str, bytes], refused: Sequence[Path] = ()
) -> list[str]:
    """What is wrong with a project that was made to its end.

    Args:
        seen: lines of records that were there at any time.
        wanted: the results whose bytes the inputs fix.
        refused: damaged files that are unchanged, and that every command refuses.
    """
    found = differences(project.fixed(), wanted)
    if lost := missing(seen, record_lines(project.home / "records")):
        found.append(f"{lost} records are lost")
    again = project.make("--dry-run")
    if "nothing to do" not in again.stdout + again.stderr:
        found.append(f"something is left to do: {(again.stdout + again.stderr)[-300:]}")
    known = tuple(f"{path.relative_to(project.results)}:" for path in refused)
    found += [told for told in half_written(project.results) if not told.startswith(known)]
    found += [
        f"left behind: {path}" for path in leftovers(project.directory, project.home, project.workspace / "cache")
    ]
    for what in (("records", "verify"), ("cache", "verify")):
        done = project.command(*what)
        if done.returncode:
            found.append(f"tvmake {' '.join(what)}: {(done.stdout + done.stderr)[-300:]}")
    return found
