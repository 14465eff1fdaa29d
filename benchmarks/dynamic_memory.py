"""Memory of a process that runs an encoder on many shapes, relative to the largest shape alone.

    python benchmarks/dynamic_memory.py [--layers 6] [--batch 2] [--length 250] [--shapes 500]

The encoder has a dynamic batch and length; its package is made without bounds, and with them. Each process runs the largest
shape, then that and as many others as there are, up to the number of shapes, in an order drawn with a fixed seed. Memory is
what is resident afterwards, in MB; ``package`` is without what the process has before it opens the package.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from comparing import environment, machine

EXPORT = """
import sys, torch
from torch import nn
from torch.nn import functional

class Encoder(nn.Module):
    def __init__(self, layers, width=384, heads=6):
        super().__init__()
        self.heads, self.embedding = heads, nn.Embedding(2000, width)
        norms = lambda: nn.LayerNorm(width)
        linear = lambda inner, outer: nn.Linear(inner, outer)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": norms(), "attention": linear(width, 3 * width), "output": linear(width, width),
            "norm2": norms(), "inner": linear(width, 4 * width), "outer": linear(4 * width, width),
        }) for _ in range(layers))

    def forward(self, ids):
        x = self.embedding(ids)
        batch, length = ids.shape
        for layer in self.layers:
            parts = layer["attention"](layer["norm"](x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(batch, length, -1)
            x = x + layer["output"](attended)
            x = x + layer["outer"](functional.gelu(layer["inner"](layer["norm2"](x))))
        return x

torch.manual_seed(0)
torch.onnx.export(Encoder(int(sys.argv[2])).eval(), (torch.zeros(2, 17, dtype=torch.int64),), sys.argv[1], dynamo=False,
                  opset_version=17, input_names=["ids"], output_names=["y"],
                  dynamic_axes={name: {0: "batch", 1: "length"} for name in ("ids", "y")})
"""

RUN = """
import json, sys
from pathlib import Path
import numpy as np
import tvmake
from tvmake.process.tvm_import import import_tvm

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

import_tvm()
before = resident_mb()
package = tvmake.open(sys.argv[1])
for shape in json.loads(sys.argv[2]):
    package.run(np.zeros(shape, "int64"))
print(json.dumps([resident_mb(), resident_mb() - before]))
"""


def resident_mb(package: Path, shapes: list[tuple[int, int]]) -> tuple[float, float]:
    """Resident memory of a process that ran a package on these shapes, and the package's part of it."""
    command = [sys.executable, "-c", RUN, str(package), json.dumps(shapes)]
    whole, part = json.loads(
        subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
    )
    return whole, part


def main() -> None:
    """Print a line for each package."""
    import random

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 6), ("batch", 2), ("length", 250), ("shapes", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    largest = (options.batch, options.length)
    others = [(batch, length) for batch in range(1, options.batch + 1) for length in range(1, options.length + 1)]
    others = random.Random(0).sample(
        [shape for shape in others if shape != largest], min(options.shapes, len(others)) - 1
    )
    print(json.dumps(machine()))
    with tempfile.TemporaryDirectory() as directory:
        network = Path(directory) / "encoder.onnx"
        subprocess.run([sys.executable, "-W", "ignore", "-c", EXPORT, str(network), str(options.layers)], check=True)
        bounds = ["--dim", f"batch=1..{options.batch}", "--dim", f"length=1..{options.length}"]
        for name, dims in (("without bounds", []), ("with bounds", bounds)):
            package = Path(directory) / "package.tar"
            command = ["tvmake", "compile", str(network), "-o", str(package), "--quiet", *dims]
            subprocess.run(command, cwd=directory, env=environment(), check=True, capture_output=True)
            alone, many = resident_mb(package, [largest]), resident_mb(package, [largest, *others])
            ratios = [many[index] / alone[index] for index in range(2)]
            print(
                f"{name}: process {alone[0]:.0f} -> {many[0]:.0f} ({ratios[0]:.2f}), package {alone[1]:.0f} -> {many[1]:.0f}"
                f" ({ratios[1]:.2f}) after {len(others) + 1} shapes",
                flush=True,
            )


if __name__ == "__main__":
    main()
