"""Compare chosen precisions with all assignments of a small network, and uniform precisions of larger ones.

    python benchmarks/precision_choice.py digits --exhaustive --out choice.json
    python benchmarks/precision_choice.py residual separable transformer --out choice.json --figure docs/figures/precision-choice.svg

Each network is a project of its own, made by `tvmake make` as far as its precision.json, in which all candidates are timed by
turns. "digits" is the demo's; the others are trained here on scikit-learn's digits (1,297 images, 500 held out), the same
weights each time. With --exhaustive every assignment of the network's layers is built and judged, and all that meet the goals are
timed alternately with the chosen one, which determines its rank. Kernels use one thread.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from comparing import ROOT, SCRIPTS, environment, machine

GOALS: Mapping[str, float] = {"top1_drop": 0.005, "sqnr_db": 30.0}
HELD_OUT = 500
VARIANT = "results/net/auto/cpu"


def data() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, shuffled: images [1797, 1, 16, 16] between 0 and 1, and classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = (found.images[order, None] / 16).astype(np.float32)
    return images.repeat(2, axis=2).repeat(2, axis=3), found.target[order].astype(np.int64)


def network(name: str) -> Any:
    """An untrained network for images of 1 × 16 × 16."""
    import torch
    from torch import nn

    def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())

    class Residual(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int):
            super().__init__()
            self.body = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs)[:2])
            self.skip = conv(inputs, outputs, 1, stride)[:2] if stride > 1 else nn.Identity()

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(values) + self.skip(values))

    class Transformer(nn.Module):
        def __init__(self, width: int = 64, heads: int = 4):
            super().__init__()
            self.patches = nn.Conv2d(1, width, 4, 4)
            self.heads = heads
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
            self.parts = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
            self.joined = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
            self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
            self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
            self.classes = nn.Linear(width, 10)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            tokens = self.patches(values).flatten(2).transpose(1, 2)
            batch, length, width = tokens.shape
            for block in range(2):
                split = self.parts[block](self.norms[2 * block](tokens))
                queries, keys, found = split.reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
                scores = torch.softmax(queries @ keys.transpose(2, 3) / math.sqrt(width / self.heads), dim=3)
                tokens = tokens + self.joined[block]((scores @ found).transpose(1, 2).reshape(batch, length, width))
                hidden = torch.nn.functional.gelu(self.wide[block](self.norms[2 * block + 1](tokens)))
                tokens = tokens + self.narrow[block](hidden)
            return self.classes(tokens.mean(dim=1))

    if name == "residual":
        body = [conv(1, 16), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    elif name == "separable":
        widths = [(16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
        pairs = [(conv(a, a, 3, stride, a), conv(a, b, 1)) for a, b, stride in widths]
        body = [conv(1, 16), *(layer for pair in pairs for layer in pair)]
    else:
        return Transformer()
    outputs = 64 if name == "residual" else 128
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(outputs, 10))


def write_trained(name: str, directory: Path) -> dict[str, Any]:
    """Train a network, write it and its held-out data, and give the model's entry of the config."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, classes = data()
    made = network(name)
    steps = torch.optim.AdamW(made.parameters(), lr=2e-3)
    rows, labels = torch.from_numpy(images[HELD_OUT:]), torch.from_numpy(classes[HELD_OUT:])
    for _ in range(8):
        for batch in torch.randperm(len(rows)).split(32):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(made(rows[batch]), labels[batch]).backward()
            steps.step()
    made.eval()
    torch.export.save(torch.export.export(made, (rows[:1],)), directory / "net.pt2")
    np.savez(directory / "held-out.npz", images=images[:HELD_OUT], labels=classes[:HELD_OUT])
    return {"source": "net.pt2", "dataset": {"path": "held-out.npz"}}


def make(name: str, directory: Path, among: Sequence[str]) -> dict[str, Any]:
    """The choice for a network (precision.json)."""
    if name == "digits":
        dataset = {"path": str(ROOT / "resources" / "digits-test.npz"), "preprocess": {"scale": 0.0625}}
        model = {"source": str(ROOT / "resources" / "digits.onnx"), "dataset": dataset}
    else:
        model = write_trained(name, directory)
    config = {
        "models": {"net": {**model, "goals": dict(GOALS)}},
        "precisions": {"auto": {"base": "auto", "among": list(among)}},
        "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
        "devices": {"local": {"threads": 1}},
    }
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
    command = [str(SCRIPTS / "tvmake"), "make", f"{VARIANT}/precision.json"]
    done = subprocess.run(command, cwd=directory, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-3000:]}")
    return dict(json.loads((directory / VARIANT / "precision.json").read_text()))


def every_assignment(directory: Path, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Build and judge every assignment of a project's network, and time those that meet the goals alternately."""
    os.chdir(directory)
    from tvmake.config.reading.load import load
    from tvmake.plan.plan import Plan
    from tvmake.quantize.precision import LayerAssignment
    from tvmake.stages.choices.choose_precision import choose_precision_request
    from tvmake.stages.choices.precision_search.kept import Kept
    from tvmake.stages.choices.precision_search.trials import Trial, Workbench

    plan = Plan(load([Path("tvmake.yaml")]))
    request = choose_precision_request(plan.context(plan.variants[0]))
    imported = [Path("results/net") / name for name in ("model.json", "model.params", "signature.json")]
    with tempfile.TemporaryDirectory() as root:
        ranges = Path("results/net/auto/calibration.json")
        known = (ranges if ranges.is_file() else None, Path("results/net/reference.npz"))
        bench = Workbench(Path(root), Kept(Path(root)), *imported, *known, request)
        wanted = [LayerAssignment(uniform=one) for one in request.among]
        wanted += [LayerAssignment(layers=list(one)) for one in product(*(layer["able"] for layer in choice["layers"]))]
        trials = [Trial(assignment.model_dump_json(), assignment) for assignment in wanted]
        for number, trial in enumerate(trials):
            bench.build(trial)
            bench.judge(trial)
            print(f"{number + 1} of {len(trials)} built", file=sys.stderr)
        meeting = [trial for trial in trials if trial.measured and not trial.measured.missed]
        bench.time(meeting)
    chosen = LayerAssignment.model_validate(choice["assignment"])
    ranked = sorted((trial for trial in meeting if trial.latency_ms is not None), key=lambda one: one.latency_ms or 0.0)
    own = next(trial for trial in ranked if trial.assignment == chosen)
    best = ranked[0]
    return {
        "assignments": len(trials),
        "meeting": len(meeting),
        "rank": ranked.index(own) + 1,
        "chosen_ms": own.latency_ms,
        "best_ms": best.latency_ms,
        "best": best.assignment.model_dump(),
        "ratio": (own.latency_ms or 0.0) / (best.latency_ms or 1.0),
        "all": [
            {
                "assignment": one.assignment.uniform or one.assignment.layers,
                "ms": one.latency_ms,
                "rounds_ms": one.rounds_ms,
            }
            for one in ranked
        ],
    }


def against_uniform(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen candidate against the uniform ones of the same run."""
    candidates = {one["name"]: one for one in choice["candidates"]}
    own = candidates[choice["chosen"]]
    return {
        name: {
            "times": one["latency_ms"] / own["latency_ms"],
            "ms": one["latency_ms"],
            "db": one["sqnr_db"],
            "meets": not one["missed"],
        }
        for name, one in candidates.items()
        if name in choice["among"] and one["latency_ms"] is not None
    }


def main() -> None:
    """Measure each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", choices=["digits", "residual", "separable", "transformer"])
    parser.add_argument("--among", default="float32,float16,int8")
    parser.add_argument("--exhaustive", action="store_true", help="measure every assignment, too")
    parser.add_argument("--out", type=Path, required=True, help="the figures to write (JSON)")
    parser.add_argument("--figure", type=Path, help="a figure of the fronts to write (SVG)")
    options = parser.parse_args()
    out = options.out.resolve()
    found: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    for name in options.networks:
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root)
            choice = make(name, directory, options.among.split(","))
            row: dict[str, Any] = {"machine": machine(), "choice": choice, "uniform": against_uniform(choice)}
            if options.exhaustive:
                row["exhaustive"] = every_assignment(directory, choice)
                os.chdir(ROOT)
        found[name] = row
        out.write_text(json.dumps(found, indent=1))
        print(f"{name}: {choice['chosen']}: {choice['because']}")
        for uniform, figures in row["uniform"].items():
            print(f"  {uniform}: {figures['times']:.2f} x as long, {figures['db']:.1f} dB, meets: {figures['meets']}")
        if options.exhaustive:
            exhaustive = row["exhaustive"]
            print(
                f"  of {exhaustive['assignments']} assignments {exhaustive['meeting']} meet the goals; rank "
                f"{exhaustive['rank']}, {exhaustive['ratio']:.3f} x the fastest"
            )
    if options.figure:
        from precision_figure import write_figure

        write_figure(found, options.figure)


if __name__ == "__main__":
    main()
