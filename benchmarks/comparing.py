"""Interleaved timing of commands, and a description of the machine; used by other scripts."""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent


def environment(**extra: str) -> dict[str, str]:
    """The environment commands are timed in: this interpreter's scripts first, and modules compiled once, as users have them."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**usual, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **extra}


def timed(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> float:
    """Wall seconds of one successful run; a failing command ends the benchmark with its output."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return seconds


def processor_time(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> float:
    """As :func:`timed`, in seconds of the processor, of all that the command has waited for: other work matters less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(command, cwd, env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def interleaved(rounds: int, subjects: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Run every subject once a round, so that a slow minute hits them all."""
    figures: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds):
        for name, subject in subjects.items():
            figures[name].append(subject())
            print(f"round {number + 1}/{rounds}: {name} {figures[name][-1]:.2f}", file=sys.stderr)
    return figures


def race(
    subjects: Mapping[str, Callable[[], Any]], clock: Callable[[], float], turns: int, turn_s: float, most_runs: int
) -> dict[str, list[float]]:
    """Milliseconds of single calls: the subjects alternate, and each turn begins with a call that is not timed."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(turns):
        for name, call in subjects.items():
            call()
            until, runs = time.perf_counter() + turn_s, 0
            while runs < 2 or (runs < most_runs and time.perf_counter() < until):
                began = clock()
                call()
                times[name].append((clock() - began) * 1e3)
                runs += 1
    return times


def race_clock(threads: int) -> Callable[[], float]:
    """Processor time of this thread if it is the only one, which other work on the machine hardly changes; else the time that passes."""
    return time.thread_time if threads == 1 else time.perf_counter


def onnxruntime_session(file: str, threads: int, *, is_exact: bool = False) -> Any:
    """An ONNX file in ONNX Runtime, on the CPU, with its default optimisations.

    Args:
        is_exact: whether sums of 8-bit products must not saturate on processors with AVX2 alone.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if is_exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def report(title: str, figures: Mapping[str, Sequence[float]], base: str, unit: str = "s") -> None:
    """Print medians, minima and ratios to ``base``; then the same as one JSON line."""
    print(f"\n{title} ({machine()})")
    reference = statistics.median(figures[base])
    for name, values in figures.items():
        middle = statistics.median(values)
        ratio = middle / reference
        print(f"  {name:<32} median {middle:9.2f} {unit}   min {min(values):9.2f} {unit}   ratio {ratio:5.2f}")
    print(json.dumps({"title": title, "base": base, "unit": unit, "figures": figures, "where": machine()}))


def machine() -> str:
    """Where and with what: processor, cores, versions, date."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        processor = names[0] if names else processor
    versions: dict[str, Any] = {name: version(name) for name in ("apache-tvm", "snakemake")}
    listed = ", ".join(f"{name} {value}" for name, value in versions.items())
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}, {listed}, {date.today()}"
