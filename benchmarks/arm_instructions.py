"""Instructions of one inference on 64-bit Arm, counted under QEMU: by rules, as plain loops, in 8 bits.

    python benchmarks/arm_instructions.py [MODEL.onnx …] [--mcpu cortex-a72] [--mattr=+dotprod]

No Arm is needed, and no other work on the machine changes the figures; what an instruction takes, they do not say. Without a model it takes two
networks of its own: convolutions (3×3, depthwise, 1×1 with 144 positions) and a layer of a transformer (a matmul, GELU, norm, softmax). Each package's
self-test has to pass, too. Keep models small: QEMU writes a line for each instruction.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from comparing import environment

from tvmake.artifact.package import unpack
from tvmake.native.bundle import bundle

RUNS = (1, 3)
"""One inference is half of the difference, which leaves out what loading takes."""

NETWORKS = """
import torch
from torch import nn
torch.manual_seed(0)
networks = {
    "convolutions": (nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU(),
                                   nn.Conv2d(32, 16, 1)), (1, 16, 12, 12)),
    "transformer": (nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Softmax(-1)), (1, 32, 64)),
}
for name, (network, shape) in networks.items():
    torch.onnx.export(network.eval(), (torch.randn(shape),), f"{name}.onnx", dynamo=False, verbose=False)
"""


class Programs:
    """``tvmake-run`` for 64-bit Arm, emulated."""

    def __init__(self) -> None:
        self.directory = bundle("aarch64")

    def command(self, *options: str) -> list[str]:
        """One that runs it, with options of QEMU's own before the program."""
        emulator = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={self.directory}"]
        return [*emulator, *options, str(self.directory / "tvmake-run"), "--threads", "1", "--package"]

    def check(self, package: Path) -> None:
        """Run a package's self-test; end this process where it fails."""
        done = subprocess.run(
            [*self.command(), str(package), "--self-test"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{package}: {done.stderr or done.stdout}")

    def instructions(self, package: Path) -> int:
        """How many one inference executes."""
        fewer, more = (self._executed(package, runs) for runs in RUNS)
        return (more - fewer) // (RUNS[1] - RUNS[0])

    def _executed(self, package: Path, runs: int) -> int:
        log = ("-singlestep", "-d", "exec,nochain")
        how = ("--samples", "1", "--warmup", "0", "--runs", str(runs))
        with subprocess.Popen(
            [*self.command(*log), str(package), *how], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as running:
            assert running.stderr is not None
            executed = sum(line.startswith(b"Trace") for line in running.stderr)
        if running.returncode:
            sys.exit(f"{package}: tvmake-run ended with {running.returncode}")
        return executed


def packages(
    models: list[Path], directory: Path, target: dict[str, object], by_rules: bool, precisions: list[str]
) -> None:
    """Make the packages of all models in a directory."""
    config = {
        "models": {model.stem: {"source": str(model.absolute())} for model in models},
        "precisions": precisions,
        "targets": {"arm": target},
        "build": {"schedule_rules": by_rules},
    }
    directory.mkdir()
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(
        ["tvmake", "make"],
        cwd=directory,
        env=environment(),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--mcpu", default="cortex-a72")
    parser.add_argument(
        "--mattr", default="+dotprod", help="additional features of the processor, with which int8 is computed"
    )
    given = parser.parse_args()
    programs = Programs()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        if not given.models:
            subprocess.run([sys.executable, "-W", "ignore", "-c", NETWORKS], cwd=directory, check=True)
        models = given.models or sorted(directory.glob("*.onnx"))
        target: dict[str, object] = {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "mcpu": given.mcpu,
            "cc": "aarch64-linux-gnu-g++",
        }
        packages(models, directory / "loops", target, False, ["float32"])
        packages(models, directory / "rules", {**target, "mattr": [given.mattr]}, True, ["float32", "int8"])
        print(f"{'network':14} {'plain loops':>12} {'by rules':>12} {'×':>6} {'int8':>12} {'× rules':>8}")
        for model in models:
            counts = []
            for made in ("loops/results/{}/float32", "rules/results/{}/float32", "rules/results/{}/int8"):
                package = directory / made.format(model.stem) / "arm/package.tar"
                unpacked = package.parent / "unpacked"
                unpacked.mkdir()
                unpack(package, unpacked)
                programs.check(unpacked)
                counts.append(programs.instructions(unpacked))
            loops, rules, int8 = counts
            print(
                f"{model.stem:14} {loops:12,} {rules:12,} {rules / loops:6.2f} {int8:12,} {int8 / rules:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
