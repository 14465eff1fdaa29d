"""A tuned package against ONNX Runtime, torch and the untuned package, on the same network in one interleaved run.

    tvmake make -c tuned.yaml
    python benchmarks/tuned_latency.py zoo:resnet18 --tuned results/resnet18/float32/cpu --untuned results/resnet18/float32/plain
    python benchmarks/tuned_latency.py timm:vit_tiny_patch16_224 --libraries DIR --tuned results/vit/float32/cpu

The directories hold mod.so, mod.json and mod.params. Every subject runs in a process of its own with two threads, and
all take turns: each turn is a warm-up and ``--runs`` single inferences of one seeded image. ONNX Runtime gets the
network through torch's exporter, which needs onnxscript, beside tvmake or below --libraries.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from comparing import environment, machine, onnxruntime_session
from untuned_latency import network as drawn

THREADS = "2"
WARMUP = 5


def image(shape: Sequence[int]) -> np.ndarray:
    """The input of every subject, float32."""
    return np.random.default_rng(0).uniform(-2, 2, shape).astype("float32")


def write_onnx(source: str, path: str) -> None:
    """The network as an ONNX file."""
    import torch

    module, inputs = drawn(source)
    torch.onnx.export(module, inputs, path, verbose=False)


def open_torch(source: str) -> Callable[[], object]:
    """Torch, without compiling."""
    import torch

    torch.set_num_threads(int(THREADS))
    network, (given,) = drawn(source)
    x = torch.from_numpy(image(given.shape))

    def run() -> object:
        with torch.no_grad():
            return network(x)

    return run


def open_onnxruntime(path: str) -> Callable[[], object]:
    """ONNX Runtime with its default optimisations."""
    session = onnxruntime_session(path, int(THREADS))
    given = {found.name: image(found.shape) for found in session.get_inputs()}
    return lambda: session.run(None, given)


def open_package(directory: str) -> Callable[[], object]:
    """A package that tvmake built."""
    from tvmake.artifact.package import verify_directory
    from tvmake.device.local.worker import LoadedPackage

    manifest = verify_directory(Path(directory), directory)
    package = LoadedPackage(Path(directory), manifest)
    package.set_inputs([image(given.shape) for given in manifest.signature.inputs])
    return package.run


OPEN = {"torch": open_torch, "onnxruntime": open_onnxruntime, "package": open_package}


def serve(kind: str, what: str) -> None:
    """The process of one subject: a line in is a turn, a line out its times in ms."""
    run = OPEN[kind](what)
    for line in sys.stdin:
        for _ in range(WARMUP):
            run()
        samples = []
        for _ in range(int(line)):
            began = time.perf_counter()
            run()
            samples.append((time.perf_counter() - began) * 1000)
        print(json.dumps(samples), flush=True)


def start(kind: str, what: str) -> subprocess.Popen[str]:
    """A subject's process."""
    env = environment(OMP_NUM_THREADS=THREADS, TVM_NUM_THREADS=THREADS)
    if kind == "package":
        env["TVM_USE_RUNTIME_LIB"] = "1"
    command = [sys.executable, __file__, "--serve", kind, what]
    return subprocess.Popen(command, env=env, cwd=Path.cwd(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(subjects: dict[str, subprocess.Popen[str]], rounds: int, runs: int) -> dict[str, list[float]]:
    """All samples of every subject, interleaved."""
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, process in subjects.items():
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{runs}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                sys.exit(f"{name} ended without an answer")
            samples[name] += json.loads(answer)
    return samples


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="zoo:<network>, or a network of a library, as breadth.py has them")
    parser.add_argument("--libraries", type=Path, help="a directory with timm, onnxscript and others")
    parser.add_argument("--tuned", required=True)
    parser.add_argument("--untuned")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.libraries:
        paths = [str(arguments.libraries.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    with tempfile.TemporaryDirectory() as directory:
        network = str(Path(directory) / "network.onnx")
        subprocess.run([sys.executable, __file__, "--onnx", arguments.source, network], check=True)
        subjects = {
            "onnxruntime": start("onnxruntime", network),
            "torch": start("torch", arguments.source),
            "tuned": start("package", arguments.tuned),
        }
        if arguments.untuned:
            subjects["untuned"] = start("package", arguments.untuned)
        try:
            samples = measure(subjects, arguments.rounds, arguments.runs)
        finally:
            for process in subjects.values():
                process.kill()
    print(f"{arguments.source} ({machine()})")
    base = min(samples["onnxruntime"])
    for name, values in samples.items():
        middle, least = statistics.median(values), min(values)
        print(f"  {name:<12} median {middle:9.3f} ms   min {least:9.3f} ms   min / onnxruntime {least / base:6.2f}")
    print(json.dumps({"source": arguments.source, "samples_ms": samples, "where": machine()}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--onnx"]:
        write_onnx(*sys.argv[2:4])
    else:
        main()
