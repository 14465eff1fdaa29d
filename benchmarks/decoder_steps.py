"""The steps of a decoder with a cache, compared with other runtimes, in one process, alternately.

    python benchmarks/decoder_steps.py [--peer onnxruntime-grouped …] [--positions 16 255 511 1000] [--rounds 3]

The decoder has 26 million random weights in float32 and a cache of 1,024 positions (:mod:`decoder_forms`). The package is compiled here
from the form with concatenated caches, or another one (`--form`). Each step has one random token and one thread. Prints each peer's
largest difference from the package, and the ratio of the package's time to its own around each position: minima of processor time over
the rounds, medians over 16 steps.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
from decoder_forms import CONCATENATED, FORMS, Sizes, random_weights, write_onnx
from decoder_peers import PEERS, Peer

import tvmake

AROUND = 16
"""Steps of which the median is taken."""


class Package:
    """The decoder compiled by tvmake, for this machine."""

    def __init__(self, directory: Path, sizes: Sizes, weights: dict[str, np.ndarray], form: str):
        file = directory / f"own-{form}.onnx"
        write_onnx(file, form, sizes, weights)
        state = {"past_key_%d": "present_key_%d", "past_value_%d": "present_value_%d"}
        dims = {"past": {"max": sizes.capacity - 1}} if form == CONCATENATED else {}
        self._package = tvmake.load(file, state=state, dims=dims).compile(shows_progress=False)
        self._takes_position = form != CONCATENATED

    def begin(self) -> None:
        self._package.reset()

    def run(self, token: int, position: int) -> np.ndarray:
        inputs = {"ids": np.array([[token]])}
        if self._takes_position:
            inputs["position"] = np.array([position])
        return self._package.run(inputs)["logits"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", choices=PEERS, help="default: ONNX Runtime's three forms")
    parser.add_argument("--form", default=CONCATENATED, choices=FORMS)
    parser.add_argument("--positions", type=int, nargs="+", default=[16, 255, 511, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sizes, names = Sizes(), arguments.peer or [name for name in PEERS if name.startswith("onnxruntime")]
    weights = random_weights(sizes)
    with tempfile.TemporaryDirectory() as directory:
        decoders: list[Peer] = [Package(Path(directory), sizes, weights, arguments.form)]
        decoders += [PEERS[name](Path(directory), sizes, weights) for name in names]
        steps = max(arguments.positions) + AROUND // 2
        times = np.full((steps, len(decoders)), np.inf)
        worst = np.zeros(len(decoders))
        for number in range(arguments.rounds):
            random = np.random.default_rng(number)
            for decoder in decoders:
                decoder.begin()
            for step in range(steps):
                token = int(random.integers(0, sizes.tokens))
                for index, decoder in enumerate(decoders):
                    began = time.process_time()
                    logits = decoder.run(token, step)
                    times[step, index] = min(times[step, index], time.process_time() - began)
                    first = logits.reshape(-1) if index == 0 else first  # noqa: F821
                    worst[index] = max(worst[index], np.abs(first - logits.reshape(-1)).max())
    print(f"{'':>26}{'difference':>12}", *(f"{position:>10}" for position in arguments.positions))
    for index, name in enumerate(["tvmake (ms)", *names]):
        figures = []
        for position in arguments.positions:
            around = np.median(times[max(position - AROUND // 2, 0) : position + AROUND // 2], axis=0)
            figures.append(around[0] / around[index] if index else around[0] * 1000)
        print(f"{name:>26}{worst[index]:12.2g}", *(f"{figure:10.2f}" for figure in figures))


if __name__ == "__main__":
    main()
