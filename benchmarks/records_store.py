"""Time and memory of a large records store: append, load, import.

    python benchmarks/records_store.py [--records 100000] [--workloads 1] [--directory DIR]

Traces are as long as those of a scheduled convolution (60 instructions, about 5 KB of JSON). Prints seconds, and the peak
memory of a process that only loads.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from comparing import machine

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.records.record import Record, TuningContext
from tvmake.records.sharing.exchange import all_workloads, export_records, import_records
from tvmake.records.store import RecordStore

CONTEXT = TuningContext(generation="tvm-0.0", target='{"kind":"llvm"}', device_class="benchmark")
DEVICE = Fingerprint(kind="cpu", soc="benchmark", cores=2, memory_bytes=1 << 34, os="Linux", runtime="tvm 0.0")
INSTRUCTIONS = 60
BATCH = 16


def record(number: int, rng: random.Random) -> Record:
    """A measured candidate."""
    instructions = [
        ["SamplePerfectTile", [f"l{i}"], ["4", "64"], [f"v{4 * i + j}" for j in range(4)]] for i in range(INSTRUCTIONS)
    ]
    decisions = [[str(i), [rng.randint(1, 64) for _ in range(4)]] for i in range(INSTRUCTIONS // 2)]
    return Record(
        trace=[instructions, decisions],
        status="ok",
        samples_s=tuple(rng.uniform(1e-4, 1e-2) for _ in range(3)),
        measured_at="2026-01-01T00:00:00+00:00",
        device=DEVICE,
        strategy="evolutionary",
        cost_model="xgb",
        seed=number,
        batch=number // BATCH,
    )


def keys(count: int) -> list[str]:
    """Keys of workloads."""
    return [f"{number:064x}" for number in range(count)]


def clocked(name: str, work: Callable[[], object], figures: dict[str, float]) -> None:
    """Note the seconds that ``work`` takes."""
    began = time.perf_counter()
    work()
    figures[name] = round(time.perf_counter() - began, 2)
    print(f"  {name:<40} {figures[name]:9.2f}")


def load_all(root: Path) -> None:
    """In a process of its own: load everything, then print the time."""
    store = RecordStore(root)
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    loaded = [one for context, key in all_workloads(store) for one in store.load(context, key)]
    figures = {"load, s": round(time.perf_counter() - began, 2)}
    figures["memory, MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty) // 1024
    began = time.perf_counter()
    for one in loaded[: len(loaded) // 10]:
        _ = one.record.trace
    figures["traces of a tenth, s"] = round(time.perf_counter() - began, 2)
    print(json.dumps(figures))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--workloads", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        load_all(arguments.load)
        return
    rng = random.Random(0)
    figures: dict[str, float] = {}
    print(f"{arguments.records} records of {arguments.workloads} workloads ({machine()})")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as temporary:
        store = RecordStore(Path(temporary) / "store")
        for key in keys(arguments.workloads):
            batches = range(0, arguments.records // arguments.workloads, BATCH)
            for start in batches:
                store.append(CONTEXT, key, [record(start + i, rng) for i in range(BATCH)])
        size = sum(path.stat().st_size for path in store.root.rglob("records.jsonl"))
        figures["size, MB"] = size >> 20
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, __file__, "--load", store.root], capture_output=True, text=True, check=True
            )
            loaded = json.loads(done.stdout)
            print(f"  {loaded}")
            figures |= {name: min(value, figures.get(name, value)) for name, value in loaded.items()}
        one = record(0, rng)
        clocked(
            "100 appends of one record, s",
            lambda: [store.append(CONTEXT, "f" * 64, [one]) for _ in range(100)],
            figures,
        )
        packed = Path(temporary) / "export.jsonl.gz"
        clocked("export, s", lambda: export_records(store, all_workloads(store), packed), figures)
        figures["exported, MB"] = packed.stat().st_size >> 20
        other = RecordStore(Path(temporary) / "other")
        clocked("import, s", lambda: import_records(other, packed), figures)
        clocked("the same import again, s", lambda: import_records(other, packed), figures)
    print(json.dumps({"records": arguments.records, "workloads": arguments.workloads, **figures, "where": machine()}))


if __name__ == "__main__":
    main()
