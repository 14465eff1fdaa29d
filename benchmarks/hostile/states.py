"""Damaged notes in ``.snakemake``, tvmake's and Snakemake's: none stops a run or hides an altered result."""

import json
import os
import random
import shutil
from pathlib import Path

from .cases import Case
from .mutate import dumps, mutate_bytes, mutate_json

CONFIG = "models: {a: {source: a.onnx}, b: {source: b.onnx}}\nprecisions: [float32]\n"
NOTES = (
    "tvmake-jobs/*.json",
    "metadata/*",
    "tvmake-up-to-date.json",
    "tvmake-digests.json",
    "tvmake-directories.json",
)
STATE_NAMES = (
    "tvmake-jobs",
    "tvmake-listings",
    "metadata",
    "incomplete",
    "locks",
    "locks/0.input.lock",
    "incomplete/cmVz",
    "log",
    "auxiliary",
    "tvmake.lock",
    "tvmake.pid",
)
"""Directories of notes, and what is there for as long as a run."""

RESULTS = (
    "a/model.json",
    "a/float32/module.params",
    "b/float32/cpu/mod.so",
    "b/float32/cpu/package.tar",
    "a/reference.npz",
)


class States:
    """Bytes and values of notes, and other things instead of them; in half of the cases a result is altered."""

    preload = ("snakemake.cli", "tvmake.cli.app", "tvmake.engine.run", "tvmake.plan.plan")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import stand_in

        for name in ("a", "b"):
            (samples / f"{name}.onnx").write_bytes(name.encode())
        (samples / "tvmake.yaml").write_text(CONFIG)
        stand_in.prepare(samples)
        stand_in.make(samples, 1, {})
        stand_in.add_job_records(samples)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        shutil.copytree(samples, directory, dirs_exist_ok=True)
        state = directory / ".snakemake"
        altered = chance.choice(RESULTS) if chance.random() < 0.5 else None
        if altered:
            (directory / "results" / altered).write_bytes(b"altered")
        pattern = chance.choice(NOTES)
        notes = sorted(path for path in state.glob(pattern) if path.is_file())
        how = chance.choice(("content", "content", "replaced"))
        if how == "replaced" and chance.random() < 0.5:
            pattern = chance.choice(STATE_NAMES)
            notes = [state / pattern]
        (directory.parent / "outside" / "mine").write_text("mine")
        for note in chance.sample(notes, min(len(notes), chance.choice((1, 1, 5, 100)))):
            if how == "content":
                note.write_bytes(_changed(note.read_bytes(), chance))
            else:
                _replace(note, directory.parent / "outside", chance)

        def wrong() -> str | None:
            output = (directory.parent / "output").read_text(errors="replace")
            planned = "would run" in output
            return None if planned or not altered else f"{altered} was altered, and nothing would make it again"

        what = f"{how} of {pattern}{f', altered {altered}' if altered else ''}"
        return Case(what, [["make", "--dry-run"]], wrong, (".snakemake/", "results/", "logs/"), must_go_on=True)


def _replace(note: Path, outside: Path, chance: random.Random) -> None:
    """Not a file instead of a note, or not a directory instead of several."""
    if note.is_dir():
        shutil.rmtree(note)
    note.unlink(missing_ok=True)
    note.parent.mkdir(exist_ok=True)
    match chance.randrange(5):
        case 0:
            os.mkfifo(note)
        case 1 if note.name not in STATE_NAMES:
            note.mkdir()
            (note / "file").touch()
        case 2:
            note.symlink_to(chance.choice((outside / "mine", outside / "new")))
        case 3:
            note.symlink_to(outside)
        case _:
            note.symlink_to(note.name)


def _changed(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return mutate_bytes(data, chance)
    return dumps(mutate_json(json.loads(data), chance))
