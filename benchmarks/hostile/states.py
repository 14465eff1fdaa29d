"""Notes in ``.snakemake``, tvmake's own and Snakemake's: damaged ones never stop a run, nor hide a result that was altered."""

import json
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
RESULTS = (
    "a/model.json",
    "a/float32/module.params",
    "b/float32/cpu/mod.so",
    "b/float32/cpu/package.tar",
    "a/reference.npz",
)


class States:
    """Bytes and values of notes; in half of the cases a result is another one than was made."""

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
        for note in chance.sample(notes, min(len(notes), chance.choice((1, 1, 5, 100)))):
            note.write_bytes(_changed(note.read_bytes(), chance))

        def wrong() -> str | None:
            output = (directory.parent / "output").read_text(errors="replace")
            planned = "would run" in output
            return None if planned or not altered else f"{altered} was altered, and nothing would make it again"

        what = f"{pattern}{f', altered {altered}' if altered else ''}"
        return Case(what, [["make", "--dry-run"]], wrong, (".snakemake/", "results/", "logs/"), must_go_on=True)


def _changed(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return mutate_bytes(data, chance)
    return dumps(mutate_json(json.loads(data), chance))
