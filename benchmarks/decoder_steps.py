"""The steps of a decoder with a cache, compared with ONNX Runtime, in one process, alternately.

    python benchmarks/decoder_steps.py DECODER.onnx --state pk=k --state pv=v [--dim t=1] [--capacity 1024] [--rounds 3]

The package is compiled here, with the length of the cache bounded by the capacity (`dims`), or not (`--capacity 0`). ONNX Runtime's
caches are outputs that are fed back, as in the file. Both have one thread; the first input of integers gets one random token in each
step, and others ones. Prints the largest difference, and the minima of processor time by position, as a ratio, in blocks of 64
positions, at position 255, and at the end of the capacity.
"""

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import onnxruntime

import tvmake

BLOCK = 64


class Source:
    """The network in ONNX Runtime.

    Args:
        state: outputs by the inputs that they are fed back to.
    """

    def __init__(self, file: Path, state: dict[str, str]):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self._session.get_outputs()]
        self._state = state
        self.begin()

    def begin(self) -> None:
        specs = {spec.name: spec for spec in self._session.get_inputs()}
        free = {
            name: [axis for axis, extent in enumerate(specs[name].shape) if not isinstance(extent, int)]
            for name in self._state
        }
        self._values = {
            name: np.zeros(
                [
                    0 if axis in free[name][-1:] else self._extent(extent)
                    for axis, extent in enumerate(specs[name].shape)
                ],
                "float32",
            )
            for name in self._state
        }

    def _extent(self, extent: Any) -> int:
        return extent if isinstance(extent, int) else 1

    def run(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        results = dict(zip(self.names, self._session.run(None, {**inputs, **self._values}), strict=True))
        self._values = {name: results[self._state[name]] for name in self._state}
        return [value for name, value in results.items() if name not in self._state.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decoder", type=Path)
    parser.add_argument("--state", action="append", required=True, metavar="INPUT=OUTPUT")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--length", default="p", help="the dimension that is the cache's length")
    parser.add_argument("--capacity", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    state = dict(pair.split("=", 1) for pair in arguments.state)
    dims: dict[str, Any] = {name: int(size) for name, size in (pair.split("=", 1) for pair in arguments.dim)}
    if arguments.capacity:
        dims[arguments.length] = {"max": arguments.capacity - 1}
    package = tvmake.load(arguments.decoder, state=state, dims=dims).compile(shows_progress=False)
    source = Source(arguments.decoder, state)
    times: dict[int, list[float]] = defaultdict(lambda: [float("inf")] * 2)
    worst = 0.0
    for number in range(arguments.rounds):
        random = np.random.default_rng(number)
        package.reset()
        source.begin()
        for step in range(arguments.steps):
            inputs = {
                spec.name: random.integers(0, 100, [extent if isinstance(extent, int) else 1 for extent in spec.shape])
                for spec in package.inputs
            }
            began = time.process_time()
            own = package.run(inputs)
            middle = time.process_time()
            expected = source.run(inputs)
            ended = time.process_time()
            worst = max(worst, *(float(np.abs(a - b).max()) for a, b in zip(own.values(), expected, strict=True)))
            known = times[step]
            times[step] = [min(known[0], middle - began), min(known[1], ended - middle)]
    print(f"largest difference {worst:.2g}")
    places = {f"{begin}–{begin + BLOCK - 1}": range(begin, begin + BLOCK) for begin in range(0, arguments.steps, BLOCK)}
    if arguments.steps > 264:
        places["around 255"] = range(247, 264)
    for name, positions in places.items():
        pairs = [times[position] for position in positions if position in times]
        own_ms, source_ms = (float(np.median([pair[side] for pair in pairs])) * 1000 for side in (0, 1))
        print(f"{name:>12}  {own_ms:8.3f} ms  ONNX Runtime {source_ms:8.3f} ms  {own_ms / source_ms:.2f}")


if __name__ == "__main__":
    main()
