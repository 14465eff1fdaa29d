"""Untuned packages against ONNX Runtime and torch, on the same input in one interleaved run.

    python benchmarks/untuned_latency.py zoo:mobilenet_v2 benchmarks/networks/timm.txt --libraries DIR --results untuned.jsonl

Each network is imported, transformed and built in a process of its own, for this machine's CPU and without any record; then
the package, ONNX Runtime and torch (eager) take turns. ONNX Runtime gets the network through torch's exporter, which needs
onnxscript, also below --libraries; where that cannot export it, the table says so. Networks that --results has are left out,
so that a stopped run resumes. ``--table`` prints the existing results.

With ``--threads 1`` the figures are the processor time of that thread, which other work on the machine hardly changes; with more
threads they are the time that passes.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from breadth import networks
from comparing import environment, machine, onnxruntime_session, race, race_clock

LIMIT_S = 1800
TURNS = 5
TURN_S = 1.0
MOST_RUNS = 50


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A network in eval mode and its inputs."""
    import torch

    if not name.startswith("zoo:"):
        import breadth_networks

        return breadth_networks.network(name)
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.zoo import models as zoo

    side = 299 if "inception" in name else 224
    return zoo.network(name, ImportOptions(source=name)), (torch.randn(1, 3, side, side),)


def package(program: Any, inputs: list[np.ndarray]) -> tuple[Callable[[], Any], float]:
    """What runs a package of a program, and the seconds that building it took."""
    import tvm

    from tvmake.codegen.link import generate
    from tvmake.codegen.lowering import lower
    from tvmake.codegen.options import BuildOptions, PassOptions
    from tvmake.codegen.weights import packed_weights
    from tvmake.config.target import TargetConfig
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.torch import importer
    from tvmake.targets.resolve import tvm_target
    from tvmake.transform.graph import transform
    from tvmake.transform.options import TransformRequest

    imported = importer.read(program, ImportOptions(source="network.pt2"))
    module, params = transform(imported.module, imported.params, TransformRequest())
    target = tvm_target(TargetConfig(kind="llvm", mcpu="native"), "targets.cpu")
    began = time.perf_counter()
    lowered = lower(module, target, [], PassOptions(), len(inputs))
    executable = generate(lowered.final, target, BuildOptions(), "targets.cpu")
    names = [str(parameter.name) for parameter in lowered.fused["main"].params[len(inputs) :]]
    weights = packed_weights(params, lowered.packings, names) if lowered.packings else params
    seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "mod.so"
        executable.export_library(str(library))
        runner = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    runner.set_input("main", *(tvm.runtime.tensor(value) for value in inputs), *weights.values())

    def run() -> np.ndarray:
        runner.invoke_stateful("main")
        outputs = runner.get_outputs("main")
        return (outputs if isinstance(outputs, tvm.runtime.Tensor) else outputs[0]).numpy()

    return run, seconds


def onnxruntime(module: Any, inputs: tuple[Any, ...], threads: int) -> Callable[[], Any]:
    """What runs a network in ONNX Runtime."""
    import torch

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "network.onnx"
        torch.onnx.export(module, inputs, str(path), verbose=False)
        session = onnxruntime_session(str(path), threads)
    given = {found.name: value.numpy() for found, value in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, given)[0]


def measured(name: str, threads: int, turns: int) -> dict[str, Any]:
    """One network's figures: minima and medians in ms, and how far the package is from torch."""
    import torch

    torch.set_num_threads(threads)
    module, inputs = network(name)
    with torch.no_grad():
        program = torch.export.export(module, inputs)
        reference = module(*inputs)
    run, build_s = package(program, [value.numpy() for value in inputs])
    subjects: dict[str, Callable[[], Any]] = {"tvmake": run}
    row: dict[str, Any] = {"network": name, "build_s": round(build_s, 1), "threads": threads}
    try:
        subjects["onnxruntime"] = onnxruntime(module, inputs, threads)
    except Exception as error:  # noqa: BLE001  # whatever the exporter fails with is what there is to say
        row["no_onnxruntime"] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"

    def run_torch() -> Any:
        with torch.no_grad():
            return module(*inputs)

    subjects["torch"] = run_torch
    expected = (reference if torch.is_tensor(reference) else next(iter(reference))).numpy().astype("float64")
    noise = float(((run() - expected) ** 2).sum())
    row["sqnr_db"] = round(10 * math.log10(float((expected**2).sum()) / max(noise, 1e-300)), 1)
    times = race(subjects, race_clock(threads), turns, TURN_S, MOST_RUNS)
    row["min_ms"] = {subject: round(min(values), 3) for subject, values in times.items()}
    row["median_ms"] = {subject: round(statistics.median(values), 3) for subject, values in times.items()}
    return row


def table(rows: list[dict[str, Any]]) -> None:
    """The figures as Markdown, with the geometric mean of the ratios."""
    print("| network | tvmake ms | ONNX Runtime ms | torch ms | × ONNX Runtime | × torch | SQNR dB | build s |")
    print("|---|---|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {"onnxruntime": [], "torch": []}
    for row in rows:
        if "min_ms" not in row:
            print(f"| {row['network']} | {row['problem']} | | | | | | |")
            continue
        own = row["min_ms"]["tvmake"]
        cells = [row["network"], f"{own:.2f}"]
        cells += [f"{row['min_ms'][peer]:.2f}" if peer in row["min_ms"] else "–" for peer in ratios]
        for peer, found in ratios.items():
            if peer in row["min_ms"]:
                found.append(own / row["min_ms"][peer])
                cells.append(f"{found[-1]:.2f}")
            else:
                cells.append("–")
        print("| " + " | ".join([*cells, str(row["sqnr_db"]), str(row["build_s"])]) + " |")
    for peer, found in ratios.items():
        if found:
            print(
                f"\ngeometric mean × {peer}: {statistics.geometric_mean(found):.2f}, worst {max(found):.2f}, of {len(found)}"
            )
    print(f"\n{machine()}")


def main() -> None:
    """Measure what --results does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--libraries", type=Path, help="a directory with timm, onnxscript and others")
    parser.add_argument("--results", type=Path, default=Path("untuned.jsonl"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.threads, options.turns)))
        return
    rows = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    known = {row["network"] for row in rows}
    paths = [str(Path(__file__).parent), *([str(options.libraries.resolve())] if options.libraries else [])]
    env = environment(PYTHONPATH=os.pathsep.join(paths), TVM_NUM_THREADS=str(options.threads))
    for name in networks(options.networks):
        if name in known:
            continue
        command = [sys.executable, __file__, "--one", name, "--threads", str(options.threads)]
        command += ["--turns", str(options.turns)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
            lines = done.stdout.splitlines() if done.returncode == 0 else []
            problem = (done.stderr.strip().splitlines() or ["nothing said"])[-1][:200]
        except subprocess.TimeoutExpired:
            lines, problem = [], f"more than {LIMIT_S} s"
        rows.append(json.loads(lines[-1]) if lines else {"network": name, "problem": problem})
        with options.results.open("a") as results:
            results.write(json.dumps(rows[-1]) + "\n")
        print(json.dumps(rows[-1]), file=sys.stderr)
    table(rows)


if __name__ == "__main__":
    main()
