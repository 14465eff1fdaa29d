"""The cost of ``package.run(array)`` compared with TVM's own call of the same code, in one process, alternately.

    python benchmarks/run_overhead.py PACKAGE.tar … [--rounds 200]

``vm(x)`` is the virtual machine's function with arguments that are TVM tensors already; ``vm(array)`` makes the tensor
of the input and the arrays of the outputs, as any use from numpy must. ``package.run`` also checks names, shapes and types;
``checks`` is that alone, which is short enough to be measured on a busy machine.
Both take the weights that the package loaded. Prints minima and medians in ms, and the ratio of the minima.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tvmake
from tvmake.process.tvm_import import hide_torch_from_tvm

hide_torch_from_tvm()

import tvm

from tvmake.running.inputs import match_inputs


def subjects(file: Path) -> dict[str, Callable[[], object]]:
    """The calls to compare, on the same input."""
    package = tvmake.open(file)
    (spec,) = package.inputs
    array = np.random.default_rng(0).standard_normal(spec.shape).astype(spec.dtype)
    package.run(array)
    loaded = package._loaded
    main = loaded.vm["main"]
    ready = tvm.runtime.tensor(array, loaded.device)

    def from_array() -> object:
        given = main(tvm.runtime.tensor(array, loaded.device), *loaded.params)
        return given.numpy() if isinstance(given, tvm.runtime.Tensor) else [value.numpy() for value in given]

    def checks() -> object:
        return match_inputs(package.manifest.signature, {spec.name: array}, None)

    return {
        "vm(x)": lambda: main(ready, *loaded.params),
        "vm(array)": from_array,
        "package.run": lambda: package.run(array),
        "checks": checks,
    }


def measured(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Latencies in ms, each subject once a round, in an order that turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds + 3):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            calls[name]()
            if number >= 3:
                found[name].append((time.perf_counter() - began) * 1000)
    return found


def main() -> None:
    """Print a table for each package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    for file in given.packages:
        found = measured(subjects(file), given.rounds)
        base = min(found["vm(array)"])
        print(file)
        for name, taken in found.items():
            print(
                f"  {name:12} min {min(taken):9.4f}  median {np.median(taken):9.4f}  × vm(array) {min(taken) / base:6.3f}"
            )


if __name__ == "__main__":
    main()
