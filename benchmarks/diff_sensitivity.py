"""Sensitivity of `tvmake diff`: false alarms between equal runs, and detected slowdowns.

For each kind of noise, pairs of measurements are compared as ``tvmake diff`` compares them: pairs of equal latency, and pairs
of which the second is slower. Made noise is drawn; real noise comes from files with one latency in ms a line
(``--record`` makes one), cut into measurements that follow each other.

    python benchmarks/diff_sensitivity.py
    python benchmarks/diff_sensitivity.py --record noise.txt --seconds 60
    python benchmarks/diff_sensitivity.py --real noise.txt

Runs of one package are what ``tvmake diff`` compares: each loads package and baseline again, and measures them alternately. Every pair of
them is compared, by the package's latency alone and with the baseline beside it:

    python benchmarks/diff_sensitivity.py --record-runs runs.jsonl --results results/digits/float32/cpu --source digits.onnx --runs 30
    python benchmarks/diff_sensitivity.py --pairs-of runs.jsonl
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from tvmake.benchmark.statistics import THRESHOLD, Speedup, compare_latency, relative_change
from tvmake.config.benchmark import Measurement
from tvmake.config.device import LocalDeviceConfig
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.frontend.options import ImportOptions
from tvmake.stages.results.benchmark import benchmark

Noise = Callable[[np.random.RandomState, int], np.ndarray]
"""Generates a measurement: samples with a median of about 1 ms, in order of measurement."""

SLOWER = 1.2


def steady(random: np.random.RandomState, count: int) -> np.ndarray:
    """A quiet machine: 1 % normal."""
    return 1 + 0.01 * random.randn(count)


def busy(random: np.random.RandomState, count: int) -> np.ndarray:
    """Log-normal, 5 %."""
    return np.exp(0.05 * random.randn(count))


def bimodal(random: np.random.RandomState, count: int) -> np.ndarray:
    """Two clock frequencies, 25 % apart; one sample in five at the lower one."""
    return np.where(random.rand(count) < 0.2, 1.25, 1.0) * (1 + 0.01 * random.randn(count))


def drifting(random: np.random.RandomState, count: int) -> np.ndarray:
    """A device that warms up: 10 % slower at the end than at the beginning."""
    return np.linspace(0.95, 1.05, count) * (1 + 0.01 * random.randn(count))


def autocorrelated(random: np.random.RandomState, count: int) -> np.ndarray:
    """Each sample like the one before: a first-order autoregression of 0.6, 3 % in all."""
    values = np.empty(count)
    value = random.randn()
    for index in range(count):
        values[index] = value
        value = 0.6 * value + 0.8 * random.randn()
    return 1 + 0.03 * values


def heavy_tailed(random: np.random.RandomState, count: int) -> np.ndarray:
    """Student's t with two degrees of freedom, upwards only beyond the median's spread: its variance is infinite."""
    return np.maximum(1 + 0.02 * random.standard_t(2, count), 0.9)


def with_outliers(random: np.random.RandomState, count: int) -> np.ndarray:
    """One sample in ten is three to thirty times as slow."""
    return np.where(random.rand(count) < 0.1, random.uniform(3, 30, count), 1.0) * (1 + 0.01 * random.randn(count))


MADE: tuple[Noise, ...] = (steady, busy, bimodal, drifting, autocorrelated, heavy_tailed, with_outliers)


def made_pairs(noise: Noise, count: int, pairs: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of measurements of the same thing."""
    random = np.random.RandomState(seed)
    for _ in range(pairs):
        yield noise(random, count), noise(random, count)


def real_pairs(latencies: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Neighbouring measurements of one long series."""
    for begin in range(0, latencies.size - 2 * count + 1, 2 * count):
        yield latencies[begin : begin + count], latencies[begin + count : begin + 2 * count]


def shares(pairs: Iterator[tuple[np.ndarray, np.ndarray]], slower: float = SLOWER) -> tuple[int, float, float]:
    """How many pairs there were; the share of equal ones called slower, and of slowed-down ones that were found."""
    count = alarms = found = 0
    for first, second in pairs:
        count += 1
        alarms += compare_latency(first.tolist(), second.tolist()).verdict == "slower"
        found += compare_latency(first.tolist(), (second * slower).tolist()).verdict == "slower"
    return count, alarms / count, found / count


def record(destination: Path, seconds: float) -> None:
    """Time a matrix product of 0.1 ms or so again and again, and write the latencies."""
    left, right = np.random.RandomState(0).rand(2, 128, 128).astype("float32")
    taken = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        for _ in range(3):
            left @ right
        taken.append((time.perf_counter() - started) * 1000)
    destination.write_text("".join(f"{value:.6f}\n" for value in taken))


def record_runs(destination: Path, results: Path, source: str, runs: int, repeat: int) -> None:
    """Measure one package repeatedly like the benchmark stage, alternating with its baseline."""
    request = BenchmarkRequest(
        device_name="local",
        device=LocalDeviceConfig(via="local"),
        measurement=Measurement(repeat=repeat),
        baseline=ImportOptions(source=source),
    )
    reference = results.parents[1] / "reference.npz"
    with destination.open("a") as file, tempfile.TemporaryDirectory() as directory:
        for _ in range(runs):
            found = benchmark(results / "package.tar", reference, request, Path(directory) / "latency.json")
            line = {"package": found.report.samples_ms, "baseline": found.baseline.samples_ms}
            file.write(json.dumps(line) + "\n")
            file.flush()


Run = dict[str, list[float]]


def is_slower(old: Run, new: Run) -> tuple[bool, bool, bool]:
    """By the package's latency; also against the baseline; also beyond the bounds of that."""
    alone = compare_latency(old["package"], new["package"]).verdict == "slower"
    speedups = []
    for run in (old, new):
        found = compare_latency(run["package"], run["baseline"])
        speedups.append(Speedup(found.ratio, found.low, found.high))
    relative = relative_change(*speedups)
    beside = alone and relative.ratio > 1 + THRESHOLD
    return alone, beside, beside and relative.low > 1


def pairs_of(file: Path, slower: float) -> None:
    """Print how often each rule calls equal runs slower, and finds a slowdown."""
    runs: list[Run] = [json.loads(line) for line in file.read_text().splitlines()]
    pairs = [pair for two in combinations(runs, 2) for pair in (two, two[::-1])]
    alarms = np.mean([is_slower(old, new) for old, new in pairs], axis=0)
    slow = [(old, {**new, "package": [value * slower for value in new["package"]]}) for old, new in pairs]
    found = np.mean([is_slower(old, new) for old, new in slow], axis=0)
    print(f"{len(runs)} runs, {len(pairs)} pairs{'':20}false alarms  {slower - 1:+.0%} found")
    for name, alarm, hit in zip(("alone", "beside the baseline", "beyond its bounds"), alarms, found, strict=True):
        print(f"{name:40}  {alarm:12.2%}  {hit:9.2%}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--samples", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--slower", type=float, default=SLOWER)
    parser.add_argument("--real", type=Path, nargs="*", default=[])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--record-runs", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--source")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--pairs-of", type=Path)
    given = parser.parse_args()
    if given.record_runs:
        record_runs(given.record_runs, given.results, given.source, given.runs, given.repeat)
        return
    if given.pairs_of:
        pairs_of(given.pairs_of, given.slower)
        return
    if given.record:
        record(given.record, given.seconds)
        return
    print(f"{'noise':24} samples   pairs  false alarms  {given.slower - 1:+.0%} found")
    for count in given.samples:
        kinds = [(noise.__name__, made_pairs(noise, count, given.pairs)) for noise in MADE]
        for file in given.real:
            latencies = np.loadtxt(file)
            kinds.append((file.stem, real_pairs(latencies[: 2 * count * given.pairs], count)))
        for name, pairs in kinds:
            number, alarms, found = shares(pairs, given.slower)
            print(f"{name:24} {count:7} {number:7}  {alarms:12.2%}  {found:9.2%}", flush=True)


if __name__ == "__main__":
    main()
