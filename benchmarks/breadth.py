"""Number of public networks with correct packages: import, build, run and compare, as a user would do it.

    python benchmarks/breadth.py benchmarks/networks/timm.txt --targets llvm adreno-730-texture --results breadth.jsonl
    python benchmarks/breadth.py timm:resnet18 torchvision:alexnet transformers:bert keras:MobileNetV2 model.onnx
    python benchmarks/breadth.py onnx-legacy:timm:resnet18 onnx-dynamo:transformers:bert --libraries libraries
    python benchmarks/breadth.py --results breadth.jsonl --table

Each network is a project of its own, made by ``tvmake make``. What is in ``--results`` already is not run again.
Networks of libraries need these beside tvmake, or in a directory that ``--libraries`` names. With ``onnx-legacy:`` or ``onnx-dynamo:``
before its name, a network is exported to an ONNX file by PyTorch's older or newer exporter (which needs onnxscript), with a dynamic
batch, and compared with what ONNX Runtime makes of the file.

==========  =====================================================================================================
right       the outputs are those of the framework, within the goals of the precision
wrong       they are not
refused     tvmake says that it cannot, and why
crashed     anything else
unexported  PyTorch gives no ONNX file of it
==========  =====================================================================================================

Exits with 1 where a network is wrong or crashed.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import yaml
from comparing import environment, machine

FACTORY = Path(__file__).with_name("breadth_networks.py")
PARTS = (FACTORY, FACTORY.with_name("breadth_small_configs.py"))
"""What a project imports."""
LIBRARIES = ("timm", "torchvision", "transformers", "transformers-auto", "keras", "pytorchcv", "smp", "ultralytics")
EXPORTERS = ("onnx-legacy", "onnx-dynamo")
ORDER = ("right", "refused", "wrong", "crashed", "unexported")
LIMIT_S = 3600

running: set[int] = set()
"""Running process groups; they end with this process."""


def networks(given: Iterable[str]) -> Iterator[str]:
    """Names and files; a .txt represents the names in its lines."""
    for name in given:
        if name.endswith(".txt"):
            lines = (line.partition("#")[0].strip() for line in Path(name).read_text().splitlines())
            yield from filter(None, lines)
        else:
            yield name


def target(tag: str) -> dict[str, Any]:
    """What a target's name means; OpenCL targets run on this machine's OpenCL device."""
    return {"kind": "llvm", "mcpu": "native"} if tag == "llvm" else {"tag": tag, "device": "local"}


def config(name: str, targets: list[str], precisions: list[str], trials: int) -> dict[str, Any]:
    """The project of one network."""
    source = name.partition(":")[0]
    if source in EXPORTERS:
        model = {"source": "network.onnx"}
    elif source in LIBRARIES:
        model = {"source": f"{FACTORY.stem}:network", "arguments": {"name": name}, "trusted": True}
    else:
        model = {"source": str(Path(name).resolve())}
    return {
        "models": {"network": model},
        "precisions": precisions,
        "targets": {tag: target(tag) for tag in targets},
        "validation": {"samples": 2},
        **({"tuning": {"trials_per_kernel": trials}} if trials else {}),
        "benchmark": {"repeat": 1, "warmup": 0, "min_repeat_ms": 0},
    }


def outcomes(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """What became of a network on each target."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tvmake-breadth-") as temporary:
        directory = Path(temporary)
        for part in PARTS:
            shutil.copy(part, directory)
        (directory / "tvmake.yaml").write_text(
            yaml.safe_dump(config(name, arguments.targets, arguments.precisions, arguments.trials))
        )
        paths = [str(Path(arguments.libraries).resolve())] if arguments.libraries else []
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        env = environment(TVMAKE_HOME=str(directory / "home"), PYTHONPATH=os.pathsep.join(paths))
        exporter, _, exported = name.partition(":")
        if exporter in EXPORTERS:
            command = [sys.executable, FACTORY.name, exported, "network.onnx", exporter.removeprefix("onnx-")]
            export = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, errors="replace")
            if export.returncode:
                cause = (export.stderr.strip().splitlines() or [""])[-1][:600]
                seconds = round(time.monotonic() - began, 1)
                rows = itertools.product(arguments.targets, arguments.precisions)
                return [
                    {
                        "network": name,
                        "target": tag,
                        "precision": base,
                        "outcome": "unexported",
                        "cause": cause,
                        "seconds": seconds,
                    }
                    for tag, base in rows
                ]
        command = ["tvmake", "make", "--cores", "1", "--quiet"]
        with (directory / "make.log").open("w") as log:
            run = subprocess.Popen(command, cwd=directory, env=env, stdout=log, stderr=log, start_new_session=True)
            running.add(run.pid)
            try:
                code = run.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                code = run.wait()
            running.discard(run.pid)
        summary = directory / "results" / "summary.json"
        rows = json.loads(summary.read_text())["rows"] if summary.is_file() else []
        found = [judged(row, directory) for row in rows]
        if not found:
            words = (directory / "make.log").read_text(errors="replace").strip()
            found = [{"target": tag, "outcome": "crashed", "cause": words[-600:]} for tag in arguments.targets]
    seconds = round(time.monotonic() - began, 1)
    return [{"network": name, **row, "seconds": seconds, "exit": code} for row in found]


def judged(row: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A row of the summary in four words; a step that ended as for bad input has refused."""
    found = {
        "target": row["target"],
        "precision": row["precision"],
        "stage": row.get("stage"),
        "cause": row.get("cause"),
    }
    match row["verdict"]:
        case "pass":
            outcome = "right"
        case "fail":
            outcome, found["cause"] = "wrong", "; ".join(f"{missed['reason']}" for missed in row["missed"])
        case _:
            ends = (
                re.findall(r'"exit": (-?\d+)', (directory / row["log"]).read_text(errors="replace"))
                if row.get("log")
                else []
            )
            outcome = "refused" if ends and ends[-1] == "1" else "crashed"
    return {"outcome": outcome, **{name: value for name, value in found.items() if value}}


def table(rows: list[dict[str, Any]]) -> str:
    """Counts by library and target, and a line for each network that is not right."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        library = row["network"].partition(":")[0] if ":" in row["network"] else "files"
        counts.setdefault((library, row["target"], row.get("precision", "-")), Counter())[row["outcome"]] += 1
    lines = [f"| networks | target | precision | {' | '.join(ORDER)} |", f"|{'---|' * (3 + len(ORDER))}"]
    lines += [
        f"| {' | '.join(key)} | {' | '.join(str(count[name]) for name in ORDER)} |"
        for key, count in sorted(counts.items())
    ]
    others = [row for row in rows if row["outcome"] != "right"]
    if others:
        lines += ["", "| network | target | outcome | cause |", "|---|---|---|---|"]
        lines += [
            f"| {row['network']} | {row['target']} | {row['outcome']} | {str(row.get('cause', '')).splitlines()[0] if row.get('cause') else ''} |"
            for row in others
        ]
    return "\n".join(lines)


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help="names, ONNX files, or lists of names (.txt)")
    parser.add_argument("--targets", nargs="+", default=["llvm"])
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument(
        "--results", type=Path, default=Path("breadth.jsonl"), help="a line for each network and target"
    )
    parser.add_argument("--libraries", help="a directory with the libraries that the networks come from")
    parser.add_argument("--trials", type=int, default=0, help="first tune each kernel with this many candidates")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    parser.add_argument("--table", action="store_true", help="print a table for the docs")
    arguments = parser.parse_args()
    kept = (
        [json.loads(line) for line in arguments.results.read_text().splitlines()] if arguments.results.is_file() else []
    )
    done = {(row["network"], row["target"], row.get("precision", "float32")) for row in kept}
    asked = list(itertools.product(arguments.targets, arguments.precisions))
    waiting = [name for name in networks(arguments.networks) if not {(name, *pair) for pair in asked} <= done]
    rows = list(kept)
    with ThreadPoolExecutor(arguments.jobs) as pool, arguments.results.open("a") as results:
        tried = [pool.submit(outcomes, name, arguments) for name in waiting]
        try:
            for one in as_completed(tried):
                for row in one.result():
                    results.write(json.dumps(row) + "\n")
                    cause = f": {row['cause']}" if row.get("cause") else ""
                    print(f"{row['outcome']:<8} {row['network']} on {row['target']}{cause}", file=sys.stderr)
                    rows.append(row)
                results.flush()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in running:
                os.killpg(group, signal.SIGKILL)
            raise
    print(
        table(rows)
        if arguments.table
        else json.dumps({"counts": Counter(row["outcome"] for row in rows), "where": machine()})
    )
    return 1 if any(row["outcome"] in ("wrong", "crashed") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
