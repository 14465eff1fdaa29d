"""Published ONNX files, compiled without options, against ONNX Runtime.

    pip download --no-deps nudenet --dest files && unzip files/nudenet-*.whl -d files
    python benchmarks/published_files.py files/nudenet/320n.onnx=1x3x320x320,1x3x256x448

The script compiles each file, which has one input, for the CPU that it runs on, without options or records. For each shape of the input it runs
the package and ONNX Runtime interleaved, from NumPy array to NumPy array, on one thread. Times are processor time. A line of the table has minima in ms, their ratio and the largest
error relative to the largest output. A file that is refused is a line with the reason.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from building import Build, BuildFailure, Checkout, run_python
from comparing import machine, onnxruntime_session, race, race_clock
from dynamic_dimensions import CACHE, MOST_RUNS, TURN_S, TURNS, largest_errors, open_package

Case = tuple[Path, list[list[int]]]


def case(text: str) -> Case:
    """A file, and the shapes of its input."""
    file, _, shapes = text.rpartition("=")
    return Path(file), [[int(extent) for extent in shape.split("x")] for shape in shapes.split(",")]


def race_file(file: str, package: str, shapes: Sequence[Sequence[int]]) -> Iterator[str]:
    """A line for each shape, in this process."""
    session, opened = onnxruntime_session(file, 1), open_package(package)
    (taken,) = session.get_inputs()
    dtype = {"tensor(float)": "float32"}.get(taken.type, taken.type.removeprefix("tensor(").removesuffix(")"))
    for shape in shapes:
        draw = np.random.default_rng(0)
        value = draw.random(shape, "float32") if dtype == "float32" else draw.integers(0, 256, shape).astype(dtype)
        expected = session.run(None, {taken.name: value})
        _, error = largest_errors(opened.outputs_of([value]), expected)
        subjects = {
            "ours": lambda value=value: opened.outputs_of([value]),
            "peer": lambda value=value: session.run(None, {taken.name: value}),
        }
        times = race(subjects, race_clock(1), TURNS, TURN_S, MOST_RUNS)
        ours, peer = min(times["ours"]), min(times["peer"])
        yield f"{'×'.join(map(str, shape))} | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} | {error:.0e}"


def lines(checkout: Checkout, cache: Path, cases: Sequence[Case]) -> Iterator[str]:
    """The table's lines."""
    yield "| file | input | package ms | ONNX Runtime ms | ratio | error |"
    yield "|---|---|---|---|---|---|"
    for file, shapes in cases:
        try:
            package = checkout.build(Build(str(file.resolve())), cache)
            job = json.dumps([str(file), str(package), shapes])
            done = run_python([__file__, "--race", job], checkout.environment(TVM_NUM_THREADS="1"))
            yield from (f"| {file.stem} | {line} |" for line in done.splitlines())
        except BuildFailure as failure:
            yield f"| {file.stem} | {failure} | | | | |"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=case, metavar="FILE=SHAPE[,SHAPE]")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"a directory for packages; {CACHE} by default")
    parser.add_argument("--race", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.race:
        for line in race_file(*options.race):
            print(line, flush=True)
        return
    for line in lines(Checkout(), options.cache, options.cases):
        print(line, flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
