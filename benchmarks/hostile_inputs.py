"""Damaged and malicious files for the real commands: refused in one clear line, or correct results.

    python benchmarks/hostile_inputs.py [--count 1000] [--seed 0] [--first 0] [--kinds onnx pt2 tflite …] [--jobs 2]

Each input is a sound file with a few random changes: bits and bytes, cuts, fields of its format, members of its archive.
It is given to the commands that read such files, each in a process forked from one that has the libraries loaded. They
have to refuse it, with exit code 1 to 4 and one line that says why, or accept it and be right about it: an import that
says which bytes it read, a package or bundle that is byte for byte the sound one. Notes in ``.snakemake`` must never stop
a run, and whatever clients send, a server or tracker has to serve the next honest one. What must not be:

- hang (over 30 s), memory (over 1 GB more than the libraries take), crash, traceback, unclear (no clear line),
- wrong (accepted, and not what it should be), outside (a file written elsewhere), ran (code out of the file).

Exits with 1 if one of these is found; the input is kept below ``--evidence`` then. An input depends on the seed, its kind
and its number: ``--kinds onnx --first 19 --count 1`` plays number 19 again. A module a kind in benchmarks/hostile/.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from hostile.bundles import Bundles
from hostile.cache_entries import CacheEntries
from hostile.cases import Kind
from hostile.configs import Configs
from hostile.datasets import Arrays, Images
from hostile.intermediates import Intermediates
from hostile.locks import Locks
from hostile.models import Onnx, Pt2, TFLite
from hostile.packages import Packages
from hostile.records import Records
from hostile.rpc import Server, Tracker
from hostile.runs import Runs
from hostile.states import States
from hostile.summaries import Summaries

KINDS: dict[str, Kind] = {
    "onnx": Onnx(),
    "pt2": Pt2(),
    "tflite": TFLite(),
    "packages": Packages(),
    "bundles": Bundles(),
    "records": Records(),
    "cache": CacheEntries(),
    "locks": Locks(),
    "configs": Configs(),
    "states": States(),
    "intermediates": Intermediates(),
    "server": Server(),
    "tracker": Tracker(),
    "images": Images(),
    "arrays": Arrays(),
    "runs": Runs(),
    "summaries": Summaries(),
}


def main() -> int:
    """Play all kinds, each in processes of its own."""
    given = _arguments()
    if given.worker is not None:
        return _work(given)
    shares = [(kind, job) for kind in given.kinds for job in range(given.jobs)]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in given.kinds}
    slowest = dict.fromkeys(given.kinds, (0.0, 0))
    bad = 0
    running: list[tuple[str, subprocess.Popen[str]]] = []
    while shares or running:
        while shares and len(running) < given.jobs:
            kind, job = shares.pop(0)
            running.append((kind, _start(given, kind, job)))
        kind, process = running.pop(0)
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                print(line, end="", file=sys.stderr)
                continue
            outcome = json.loads(line)
            counts[kind][outcome["result"]] += 1
            slowest[kind] = max(slowest[kind][0], outcome["wall_s"]), max(slowest[kind][1], outcome["peak_mb"])
            if outcome["result"] not in ("refused", "accepted"):
                bad += 1
                print(
                    f"{kind} {outcome['number']}: {outcome['result']}: {outcome['case']}: {outcome['detail']}",
                    flush=True,
                )
        if process.wait():
            bad += 1
            print(f"{kind}: the worker ended with code {process.returncode}")
    print("| kind | inputs | refused | accepted | else | slowest s | most MB |\n|---|---|---|---|---|---|---|")
    for kind, counted in counts.items():
        good = counted["refused"] + counted["accepted"]
        row = (kind, counted.total(), counted["refused"], counted["accepted"], counted.total() - good, *slowest[kind])
        print("| " + " | ".join(map(str, row)) + " |")
    print(json.dumps({"seed": given.seed, "bad": bad, **{kind: dict(counted) for kind, counted in counts.items()}}))
    return int(bad > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="inputs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--evidence", type=Path, default=Path("hostile-inputs"), help="where bad cases are kept")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _start(given: argparse.Namespace, kind: str, job: int) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--worker", str(job), "--kinds", kind, "--evidence", str(given.evidence)]
    command += [
        word for name in ("count", "seed", "first", "jobs") for word in (f"--{name}", str(getattr(given, name)))
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _work(given: argparse.Namespace) -> int:
    """Play every n-th input of one kind; one JSON line for each."""
    from dataclasses import asdict

    from hostile.running import GOOD, play

    from tvmake.process.forkserver.preload import freeze_memory, load

    (name,) = given.kinds
    kind = KINDS[name]
    load(kind.preload)
    with tempfile.TemporaryDirectory(prefix="tvmake-hostile-") as directory:
        samples = Path(directory) / "samples"
        samples.mkdir()
        with contextlib.redirect_stdout(sys.stderr):
            kind.prepare(samples)
        freeze_memory()
        for number in range(given.first + given.worker, given.first + given.count, given.jobs):
            root = Path(directory) / str(number)
            outcome = play(kind, samples, root, f"{given.seed} {name} {number}")
            print(json.dumps({"number": number, **asdict(outcome)}), flush=True)
            if outcome.result not in GOOD:
                given.evidence.mkdir(parents=True, exist_ok=True)
                _keep(root, given.evidence / f"{name}-{given.seed}-{number}")
            else:
                _remove(root)
    return 0


def _keep(directory: Path, evidence: Path) -> None:
    import shutil

    shutil.rmtree(evidence, ignore_errors=True)
    shutil.copytree(directory, evidence, symlinks=True)


def _remove(directory: Path) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
