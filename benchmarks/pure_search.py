"""A search that is killed repeatedly, against an undisturbed one, with latencies computed from the schedule.

As a candidate's latency depends on nothing else, a search that is resumed must end with the same records as
one that was never disturbed.

    python benchmarks/pure_search.py STORE --begun FILE --trials 40     # one search, to be killed
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from comparing import environment
from killing import missing, record_lines

from tvmake.process.tvm_import import hide_torch_from_tvm

EXTENT = 64
"""Of the matrices that are multiplied."""

BATCH = 4
CANDIDATE_S = 0.02
"""What measuring one takes."""

LONGEST_S = 0.4
"""From the first new candidate of a process to its death, at most."""


@dataclass
class Kill:
    """One kill, and what it cost."""

    lost: int
    """Records that were there before and not after it."""
    unmeasured: int
    """Candidates that had been begun."""


@dataclass
class Outcome:
    """A killed search beside an undisturbed one."""

    kills: int
    trials: int
    lost: int
    """Records that were there before a kill and not after it."""
    unmeasured: int
    """Candidates that were begun and not yet measured at a kill, at most; they are begun again."""
    is_equal: bool
    """Both ended with the same candidates in the same order, and the same best."""
    stopped: str
    best_ratio: float

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        found = []
        if self.lost:
            found.append(f"{self.lost} records lost")
        if self.unmeasured > BATCH:
            found.append(f"{self.unmeasured} candidates had to be begun again after one kill")
        if self.stopped != "budget":
            found.append(f"the search stopped before its budget ({self.stopped})")
        if not self.is_equal:
            found.append("another end than the undisturbed search's")
        return found


class Pure:
    """A measurer that takes the latency from the candidate's code, and writes down what it begins."""

    def __init__(self, begun: Path):
        self.begun = begun

    def measure(self, candidates: Sequence) -> Generator:
        """See :class:`tvmake.tune.measure.interface.Measurer`."""
        import tvm

        from tvmake.tune.measure.interface import Measured

        digests = [hashlib.sha256(tvm.ir.save_json(candidate.module).encode()).hexdigest() for candidate in candidates]
        with self.begun.open("a") as file:
            file.write("".join(f"{digest}\n" for digest in digests))
        for one, digest in zip(candidates, digests, strict=True):
            time.sleep(CANDIDATE_S)
            yield Measured(one.number, "ok", (1e-3 + int(digest[:6], 16) * 1e-9,))

    def close(self) -> None:
        """Nothing is open."""


def search(store: Path, begun: Path, trials: int) -> None:
    """One search; prints why it stopped and its best latency."""
    import tvm
    from tvm import te

    from tvmake.config.requests.tuning import SearchOptions
    from tvmake.device.fingerprint import local_fingerprint
    from tvmake.records.store import RecordStore
    from tvmake.records.workload import workload
    from tvmake.targets.backends import backend_of
    from tvmake.tune.context import tuning_context
    from tvmake.tune.search.search import Search

    target, device = tvm.target.Target({"kind": "llvm"}), local_fingerprint(2)
    a, b = (te.placeholder((EXTENT, EXTENT), "float32", name) for name in "ab")
    k = te.reduce_axis((0, EXTENT), "k")
    c = te.compute((EXTENT, EXTENT), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    run = Search(
        workload=workload(te.create_prim_func([a, b, c]), target),
        context=tuning_context(target, device),
        store=RecordStore(store),
        measuring=lambda: nullcontext(Pure(begun)),
        device=device,
        options=SearchOptions(cost_model="xgb", batch=BATCH, population=16),
        trials=trials,
        target=backend_of(target).search_target(target, 2),
        threads=1,
    )
    stopped = run.run()
    print(json.dumps({"stopped": stopped, "best_ms": run.best_ms}))


def start(directory: Path, trials: int) -> subprocess.Popen[str]:
    """The search as a process."""
    directory.mkdir(exist_ok=True)
    begun = directory / "begun"
    begun.touch()
    command = [sys.executable, __file__, str(directory / "store"), "--begun", str(begun)]
    command += ["--trials", str(trials)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str]) -> dict:
    """What a search says at its end."""
    said, _ = process.communicate()
    if process.returncode:
        sys.exit(f"a search that nobody killed ended with {process.returncode}")
    return json.loads(said)


def traces(directory: Path) -> list[str]:
    """The candidates in a store, in order."""
    (records,) = (directory / "store").rglob("records.jsonl")
    return [json.dumps(json.loads(line)["record"]["trace"]) for line in records.read_text().splitlines()]


def kill_some(directory: Path, trials: int, kills: int, rng: random.Random) -> tuple[dict, list[Kill]]:
    """Run a search to its end with kills; returns what it said, and the kills that met it."""
    store, begun, done = directory / "store", directory / "begun", []
    while True:
        process = start(directory, trials)
        if len(done) == kills:
            return finish(process), done
        had, stored = begun.stat().st_size, count(store)
        while process.poll() is None and begun.stat().st_size == had:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, LONGEST_S))
        lines = record_lines(store)
        if process.poll() is not None:
            return finish(process), done
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        fresh = len(begun.read_text()[had:].split())
        done.append(Kill(missing(lines, record_lines(store)), fresh - (count(store) - stored)))


def count(store: Path) -> int:
    """Records in a store."""
    return sum(map(len, record_lines(store).values()))


def compare(directory: Path, trials: int, kills: int, rng: random.Random) -> Outcome:
    """The same search undisturbed and killed."""
    undisturbed, disturbed = directory / "undisturbed", directory / "disturbed"
    reference = finish(start(undisturbed, trials))
    said, done = kill_some(disturbed, trials, kills, rng)
    ours, theirs = traces(disturbed), traces(undisturbed)
    return Outcome(
        kills=len(done),
        trials=len(ours),
        lost=sum(one.lost for one in done),
        unmeasured=max((one.unmeasured for one in done), default=0),
        is_equal=ours == theirs and said["best_ms"] == reference["best_ms"],
        stopped=said["stopped"],
        best_ratio=said["best_ms"] / reference["best_ms"],
    )


def report(outcome: Outcome) -> list[str]:
    """Print it; returns what must not be."""
    print("\nlatencies made from the schedule: a killed search and an undisturbed one")
    equal = (
        "the same records in the same order" if outcome.is_equal else f"best {outcome.best_ratio:.2f} of undisturbed"
    )
    print(
        f"  {outcome.kills:3} kills {outcome.trials:4} trials {outcome.lost:3} lost"
        f"   unmeasured at a kill, at most: {outcome.unmeasured}   {equal}"
    )
    print(json.dumps(asdict(outcome)))
    return outcome.faults


if __name__ == "__main__":
    hide_torch_from_tvm()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--begun", type=Path, required=True)
    parser.add_argument("--trials", type=int, required=True)
    asked = parser.parse_args()
    search(asked.store, asked.begun, asked.trials)
