"""Check that no damaged result, and no result of an unfinished step, is accepted as valid.

    python benchmarks/corruptions.py [--corruptions 3000] [--kills 200] [--seed 0]

A small network is made once. Then single results, notes on them, or both are damaged, with new times or their old ones, and
``tvmake.engine.up_to_date.outdated`` decides whether a result is unchanged: it has to name the result, or
the result's bytes are those that were made. With a kill, a step gets another input beside results that say that they are old
ones; it is ended after a random time, and what is left may not count as made of the new input unless the step made it; then the
same command has to succeed.

Exits with 1 if anything else is found. Python on one core: 3,000 corruptions take about two minutes, a kill some seconds.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import chdir
from pathlib import Path

from comparing import ROOT, machine

sys.path.insert(0, str(ROOT))

from faults.alter import MUTATIONS
from hostile.intermediates import Intermediates

from tvmake.config.reading.load import load
from tvmake.engine.up_to_date.outdated import outdated_results
from tvmake.engine.up_to_date.scope import jobs_of
from tvmake.plan.plan import Job, Plan
from tvmake.process.fork import fork
from tvmake.storage.files import digest_file
from tvmake.storage.notes.job_records import record_file, record_of

NOTES = 0.2
"""The part of the corruptions that damage records as well."""

OLD = {
    "export": ("package.tar",),
    "attest": ("package.provenance.json", "package.cdx.json"),
    "validate": ("numerics.json",),
    "report": ("summary.json", "summary.csv", "index.html"),
}
"""Stages that are ended, and their results, which say before that they are old."""

CHANGED = {"export": "packing.json", "attest": "source.json", "validate": "reference.npz", "report": "latency.json"}
"""The input of each that is another one than the old results were made of."""


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corruptions", type=int, default=3000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tvmake-corruptions-") as temporary:
        sound, directory = Path(temporary) / "sound", Path(temporary) / "copy"
        sound.mkdir()
        Intermediates().prepare(sound)
        os.environ["TVMAKE_HOME"] = str(Path(temporary) / "home")
        shutil.copytree(sound, directory)
        with chdir(directory):
            plan = Plan(load([Path("tvmake.yaml")]))
            jobs = jobs_of(plan, plan.variants)
            if found := outdated_results(jobs):
                sys.exit(f"the sound project has altered results: {found}")
            counts, wrong = corrupt(jobs, given.corruptions, random.Random(f"{given.seed} corruptions"))
            commands = json.loads(Path("commands.json").read_text())
            ended, more = kill(jobs, commands, sound, given.kills, random.Random(f"{given.seed} kills"))
    for one in wrong + more:
        print(f"PROBLEM: {one}")
    print(json.dumps({"corruptions": counts, "kills": ended, "wrong": len(wrong + more), "where": machine()}))
    return int(bool(wrong or more))


def corrupt(jobs: list[Job], count: int, chance: random.Random) -> tuple[Counter[str], list[str]]:
    """Damage a result, ask, and put it back."""
    outputs = sorted({name for job in jobs for name in job.outputs if Path(name).exists()})
    files = [(name, file) for name in outputs for file in ([Path(name)] if Path(name).is_file() else _inside(name))]
    counts: Counter[str] = Counter()
    wrong = []
    for number in range(count):
        name, file = chance.choice(files)
        data, times = file.read_bytes(), file.stat()
        changed = chance.choice(MUTATIONS)(data, chance)
        file.write_bytes(changed)
        if chance.random() < 0.5:
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        record = record_file(name)
        noted = record.read_bytes()
        if chance.random() < NOTES:
            record.write_bytes(chance.choice(MUTATIONS)(noted, chance))
        found = outdated_results(jobs)
        is_other, is_noted = changed != data, record.read_bytes() != noted
        if (is_other or is_noted) and name not in found:
            wrong.append(f"{number}: {file} was damaged, and counts as good")
        if extra := [one for one in found if one != name]:
            # Each output of a job has a file with the job's record.
            is_same_job = is_noted and any({name, *extra} <= set(job.outputs) for job in jobs)
            wrong += [] if is_same_job else [f"{number}: {extra[0]} counts as altered, and {file} was"]
        counts["damaged" if is_other else "the same"] += 1
        counts["records damaged"] += is_noted
        file.write_bytes(data)
        record.write_bytes(noted)
    return counts, wrong


def kill(
    jobs: list[Job], commands: dict[str, list[str]], sound: Path, count: int, chance: random.Random
) -> tuple[Counter[str], list[str]]:
    """End a step at a random time, see what counts, and give the same command again."""
    by_stage = {job.stage: job for job in jobs}
    counts: Counter[str] = Counter()
    wrong = []
    took = dict.fromkeys(OLD, 1.0)
    for number in range(count):
        stage = chance.choice(list(OLD))
        job = by_stage[stage]
        _restore(sound)
        _make_old(job, stage)
        before = {name: digest_file(Path(name)) for name in job.outputs}
        child = fork(lambda stage=stage: _run(commands[stage]), leads="session")
        time.sleep(chance.uniform(0, took[stage]))
        _end(child)
        left = {name: digest_file(Path(name)) for name in job.outputs if Path(name).exists()}
        is_good = _counts(job)
        if is_good and any(left.get(name) == digest for name, digest in before.items()):
            wrong.append(f"{number}: {stage} was ended, and its old results count as made of what is there now")
        counts["ended" if not is_good else "had finished"] += 1
        began = time.monotonic()
        code = os.waitstatus_to_exitcode(os.waitpid(fork(lambda stage=stage: _run(commands[stage])), 0)[1])
        took[stage] = time.monotonic() - began
        if code or not _counts(job):
            wrong.append(f"{number}: the same command again ended with {code}")
        elif any(digest_file(Path(name)) == digest for name, digest in before.items()):
            wrong.append(f"{number}: the same command again left an old result")
    return counts, wrong


def _restore(sound: Path) -> None:
    for name in ("results", ".snakemake"):
        shutil.rmtree(name, ignore_errors=True)
        shutil.copytree(sound / name, name)


def _make_old(job: Job, stage: str) -> None:
    """Give the step another input, and results and a record from before."""
    from tvmake.storage.notes.job_records import record_job

    for name in job.outputs:
        if name.endswith(OLD[stage]):
            Path(name).write_bytes(b"an old pass")
    changed = next(Path(name) for name in job.inputs if name.endswith(CHANGED[stage]))
    data = changed.read_bytes()
    maker = record_file(str(changed)).read_bytes()
    record_file(str(changed)).unlink()
    changed.write_bytes(b"an older input")
    with record_job(map(Path, job.inputs), map(Path, job.outputs)):
        for name in job.outputs:
            Path(name).write_bytes(b"an old pass")
    changed.write_bytes(data)
    record_file(str(changed)).write_bytes(maker)


def _counts(job: Job) -> bool:
    """Whether results exist, unaltered, and were built from the current inputs."""
    record = record_of(job.outputs)
    if record is None or not all(Path(name).exists() for name in job.outputs):
        return False
    known = {**record.inputs, **record.outputs}
    return all(Path(name).exists() and digest_file(Path(name)) == digest for name, digest in known.items())


def _run(words: list[str]) -> int:
    from tvmake.cli import run

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    return run(words)


def _end(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _inside(directory: str) -> list[Path]:
    """Without hidden files, which are notes of Snakemake's."""
    return [file for file in sorted(Path(directory).rglob("[!.]*")) if file.is_file()]


if __name__ == "__main__":
    sys.exit(main())
