"""Packages on an NVIDIA GPU against torch, eager and as a CUDA graph, on the same network in one interleaved run.

    tvmake make -c gpu.yaml
    python benchmarks/gpu_latency.py zoo:resnet18 results/resnet18/float32/*
    python benchmarks/gpu_latency.py resources/digits.pt2 results/digits/float32/*

Every directory holds mod.so, mod.json and mod.params, and is named in the table by its last two parts. Each subject runs in a
process of its own and all take turns: a turn is a warm-up and ``--samples`` samples of ``--runs`` inferences of one seeded
image that is on the GPU already, waited for at the end of the sample. Outputs are compared with torch's on the CPU: the
largest difference as a share of their RMS.

torch computes convolutions in TF32 unless it is told not to; both ways are shown, and float16. Ratios are to its graph in
float32. Packages are named by target and precision.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from comparing import environment, machine

WARMUP = 20
PRECISIONS = ("float32", "tf32", "float16")

Subject = tuple[Callable[[], object], Callable[[], None], Callable[[], np.ndarray]]
"""Run once, wait for what was run, and the output."""


@functools.cache
def program(source: str):
    """The network as torch exports it. Loading a ``.pt2`` runs what it holds."""
    import torch

    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.zoo import models as zoo

    if source.startswith("zoo:"):
        return zoo.export(source, ImportOptions(source=source))
    return torch.export.load(source)


def image(source: str) -> np.ndarray:
    """The input of every subject."""
    (example,), _ = program(source).example_inputs
    return np.random.default_rng(0).uniform(-2, 2, tuple(example.shape)).astype("float32")


def expected(source: str) -> np.ndarray:
    """Torch's output on the CPU."""
    import torch

    with torch.no_grad():
        return program(source).module()(torch.from_numpy(image(source))).numpy()


def open_eager(source: str, precision: str) -> Subject:
    """Torch without changes."""
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if precision == "float16" else torch.float32
    moved, x = program(source).module().to("cuda", dtype), torch.from_numpy(image(source)).to("cuda", dtype)
    last = []

    def run() -> object:
        with torch.no_grad():
            last[:] = [moved(x)]
        return last

    return run, torch.cuda.synchronize, lambda: last[0].float().cpu().numpy()


def open_graph(source: str, precision: str) -> Subject:
    """Torch, its kernels recorded once and launched together."""
    import torch

    run, wait, output = open_eager(source, precision)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay, wait, output


def open_package(directory: str, source: str) -> Subject:
    """A package that tvmake built."""
    from tvmake.artifact.package import verify_directory
    from tvmake.device.local.worker import LoadedPackage

    package = LoadedPackage(Path(directory), verify_directory(Path(directory), directory))
    package.set_inputs([image(source)])
    return package.run, package.device.sync, lambda: package.outputs()[0]


def opened(kind: str, source: str) -> Subject:
    """A subject by the words on its process's command line: one of torch's ways, or a package's directory."""
    how, _, precision = kind.partition("-")
    match how:
        case "eager":
            return open_eager(source, precision)
        case "graph":
            return open_graph(source, precision)
    return open_package(kind, source)


def serve(kind: str, source: str) -> None:
    """The process of one subject: a line in is a turn (samples, runs), a line out its times in ms a run."""
    run, wait, output = opened(kind, source)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    for line in sys.stdin:
        samples, runs = map(int, line.split())
        for _ in range(WARMUP):
            run()
        wait()
        times = []
        for _ in range(samples):
            began = time.perf_counter()
            for _ in range(runs):
                run()
            wait()
            times.append((time.perf_counter() - began) * 1000 / runs)
        print(json.dumps({"ms": times, "output": output().ravel().tolist()}), file=answers, flush=True)


def start(kind: str, source: str) -> subprocess.Popen[str]:
    """A subject's process."""
    command = [sys.executable, __file__, "--serve", kind, source]
    return subprocess.Popen(
        command, env=environment(), cwd=Path.cwd(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def turn(name: str, process: subprocess.Popen[str], samples: int, runs: int) -> dict[str, list[float]] | None:
    """One turn of one subject; None where it ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(f"{samples} {runs}\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    answer = process.stdout.readline()
    return json.loads(answer) if answer else None


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="zoo:<network>, or a .pt2 file with one input")
    parser.add_argument("packages", nargs="*", type=Path, help="directories of packages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    want = expected(arguments.source).ravel()
    rms = float(np.sqrt(np.mean(want**2)))
    kinds = [f"{how}-{what}" for how in ("eager", "graph") for what in PRECISIONS]
    subjects = {f"torch {kind}": start(kind, arguments.source) for kind in kinds}
    subjects |= {
        "/".join(directory.parts[-2:]): start(str(directory), arguments.source) for directory in arguments.packages
    }
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    errors: dict[str, float] = {}
    try:
        for _ in range(arguments.rounds):
            for name, process in list(subjects.items()):
                told = turn(name, process, arguments.samples, arguments.runs)
                if told is None:
                    print(f"{name} ended with {process.wait()}", file=sys.stderr)
                    del subjects[name], samples[name]
                    continue
                samples[name] += told["ms"]
                errors[name] = float(np.abs(np.array(told["output"]) - want).max() / rms)
    finally:
        for process in subjects.values():
            process.kill()
    import torch

    print(f"{arguments.source} ({machine()}, {torch.cuda.get_device_name()}, torch {torch.__version__})")
    base = statistics.median(samples["torch graph-float32"])
    print(f"{'':28}{'median ms':>10}{'min ms':>10}{'/ float32 graph':>17}{'error / RMS':>13}")
    for name, times in samples.items():
        median = statistics.median(times)
        print(f"{name:28}{median:10.3f}{min(times):10.3f}{median / base:17.2f}{errors[name]:13.1e}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
    else:
        main()
