"""Kernels that networks share when they are tuned together, and the trials that this saves.

    python benchmarks/sharing.py [--trials 1000] [--directory DIR] [--cores 2]

Imports, transforms and extracts with ``tvmake make``, then spreads the budget as the budget stage does. Nothing is
measured, so the figures are the same on every machine with the same versions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from comparing import environment, machine

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import TaskList
from tvmake.config.requests.tuning import ModelBudget
from tvmake.config.tuning import TuningOptions
from tvmake.tune.budget import spread

TARGET = "cpu"

RESNETS = ["resnet18/float32", "resnet34/float32", "resnet50/float32"]
MOBILENETS = ["mobilenet_v1/float32", "mobilenet_v2/float32"]
GROUPS: dict[str, list[str]] = {
    "ResNet-18, 34 and 50": RESNETS,
    "MobileNetV1 and V2": MOBILENETS,
    "all five": [*RESNETS, *MOBILENETS],
    "ResNet-18 as float32, float16, float16_acc32": [
        "resnet18/float32",
        "resnet18/float16",
        "resnet18/float16_acc32",
    ],
    "ResNet-18 with 1000 and with 10 classes": ["resnet18/float32", "resnet18_classes10/float32"],
    "ResNet-18 at batch 1 and 8": ["resnet18/float32", "resnet18_batch8/float32"],
}
"""Variants (model/precision) that are tuned together."""

ARGUMENTS: dict[str, dict[str, int]] = {
    "resnet18_classes10": {"num_classes": 10},
    "resnet18_batch8": {"batch": 8},
}
"""Models that are a zoo network with other arguments."""


def variants() -> list[str]:
    """All of them, once."""
    return list(dict.fromkeys(variant for group in GROUPS.values() for variant in group))


def config(trials: int) -> dict[str, object]:
    """All models for one target."""
    models = sorted({variant.partition("/")[0] for variant in variants()})
    return {
        "models": {
            # "resnet18_batch8" is resnet18 with arguments.
            name: {"source": f"zoo:{name.rpartition('_')[0]}", "arguments": ARGUMENTS[name]}
            if name in ARGUMENTS
            else {"source": f"zoo:{name}"}
            for name in models
        },
        "precisions": ["float32", "float16", "float16_acc32"],
        "transform": {"layout": "NHWC"},
        "targets": {TARGET: {"kind": "llvm", "mcpu": "native"}},
        "tuning": {"trials": trials},
    }


def extracted(directory: Path, trials: int, cores: int) -> dict[str, TaskList]:
    """The kernels of every variant, by ``tvmake make``."""
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config(trials)))
    files = {variant: f"results/{variant}/{TARGET}/tasks.json" for variant in variants()}
    command = ["tvmake", "make", *files.values(), "--cores", str(cores)]
    done = subprocess.run(command, cwd=directory, env=environment(), check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return {variant: stage_json.load(TaskList, directory / file) for variant, file in files.items()}


def to_tune(tasks: TaskList) -> dict[str, int]:
    """The kernels worth tuning, and how often an inference calls each."""
    return {task.workload: task.calls for task in tasks.tasks if task.trivial is None}


def together(group: Sequence[str], tasks: Mapping[str, TaskList], trials: int) -> dict[str, int]:
    """Kernels and trials of a group, each variant by itself and all of them together."""
    budget = ModelBudget(trials=trials, floor=TuningOptions().floor)
    budgets, saved = spread({one: tasks[one] for one in group}, dict.fromkeys(group, budget), 1.0, {})
    shared = sum(kernel.trials for kernel in budgets.values())
    return {
        "kernels_alone": sum(len(to_tune(tasks[one])) for one in group),
        "kernels_together": len(budgets),
        "trials_alone": shared + saved,
        "trials_together": shared,
        "trials_saved": saved,
    }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="budget of every variant")
    parser.add_argument("--directory", type=Path, help="keep the results here")
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        tasks = extracted(directory, arguments.trials, arguments.cores)
    alone = {
        variant: {"calls": sum(to_tune(one).values()), "kernels": len(to_tune(one))} for variant, one in tasks.items()
    }
    groups = {name: together(group, tasks, arguments.trials) for name, group in GROUPS.items()}
    print(f"\nkernels worth tuning ({machine()})")
    for variant, counts in alone.items():
        print(f"  {variant:<32} {counts['calls']:4} calls of {counts['kernels']:4} kernels")
    print(f"\nkernels and trials, each variant by itself -> together, {arguments.trials} trials a variant")
    for name, one in groups.items():
        print(
            f"  {name:<46} {one['kernels_alone']:4} -> {one['kernels_together']:4} kernels"
            f"   {one['trials_alone']:5} -> {one['trials_together']:5} trials"
            f"   saved {one['trials_saved']:5} ({one['trials_saved'] / one['trials_alone']:.0%})"
        )
    print(json.dumps({"trials": arguments.trials, "alone": alone, "groups": groups, "where": machine()}))


if __name__ == "__main__":
    main()
