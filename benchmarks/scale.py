"""Time and memory of planning, of a run with nothing to do, and of scheduling, for 100 to 50,000 jobs.

    python benchmarks/scale.py [--jobs 100 1000 10000 50000] [--rounds 1] [--at DIRECTORY] [--plot FILE]
    python benchmarks/scale.py run [--jobs 300 1000 3000 10000 50000] [--speedup 0] [--at DIRECTORY]

The first form makes a project of each size whose results all exist, and measures whole commands on the real Snakefile:
a plan before anything is made, with ``tvmake make`` and with plain ``snakemake``, a plan after one model was changed, or an
option of every build, and a run with nothing to do: with ``tvmake make`` and its answer that there was nothing to do, without
that answer, without the stamps in it, and with plain ``snakemake``. Making a project takes about 25 ms a job, a round of measuring it about 10 ms a job: two
to three minutes for 1,000 and 10,000 jobs together, ten to twenty more for 50,000.

The second form makes a project from nothing with a stand-in for ``tvmake step``, which makes a stage's files after the
stage's usual seconds divided by SPEEDUP (0: at once), which shows the overhead of a job: some 20 ms, or 3 minutes for 10,000
jobs.

Sizes that are in DIRECTORY/points.jsonl or runs.jsonl already are not measured again without ``--again``, and projects of
the first form are used again, so a measurement can be cut off and go on. The plot shows what both forms measured.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stand_in
import yaml
from comparing import ROOT, environment, machine
from scale_figures import plot, show

if TYPE_CHECKING:
    from tvmake.plan.plan import Job

SETTLED_S = 2.5
"""What changed more recently is not noted."""

PRECISIONS = ["float32", "float16", "float16_acc32"]
MOST_TARGETS = 10
JOBS_A_VARIANT = 11
KERNELS = 3
"""Tuned kernels of a network; the last one is shared by two networks."""

SECONDS = {
    "import": 8,
    "reference": 10,
    "self_test": 5,
    "transform": 4,
    "extract": 4,
    "budget": 1,
    "tune": 240,
    "pick_best": 15,
    "build": 25,
    "export": 1,
    "attest": 1,
    "deploy": 5,
    "validate": 8,
    "benchmark": 20,
    "report": 10,
}
"""What a stage of a network like ResNet-18 takes; tuning with 128 trials a kernel."""


@dataclass(frozen=True)
class Size:
    """How many of each there are."""

    models: int
    targets: int

    @property
    def variants(self) -> int:
        """Models × precisions × targets."""
        return self.models * self.targets * len(PRECISIONS)

    @property
    def jobs(self) -> int:
        """Of the whole DAG, kernels included."""
        kernels = sum(len(kernels_of(self.models, precision)) for precision in PRECISIONS)
        of_models = self.models * (2 + len(PRECISIONS))
        return of_models + 8 * self.variants + self.targets * (1 + kernels) + 2


def size_of(jobs: int) -> Size:
    """The axes for about that many jobs: up to ten targets, three precisions, then models."""
    variants = jobs / JOBS_A_VARIANT
    targets = max(1, min(MOST_TARGETS, int(variants / len(PRECISIONS))))
    return Size(max(1, round(variants / targets / len(PRECISIONS))), targets)


def kernels_of(models: int, precision: str) -> dict[str, list[str]]:
    """The kernels of a precision by workload, with the variants that have them."""
    users: dict[str, list[str]] = {}
    for model in range(models):
        for kernel in range(KERNELS):
            owner = model // 2 if kernel == KERNELS - 1 else model
            workload = hashlib.sha256(f"{owner} {precision} {kernel}".encode()).hexdigest()
            users.setdefault(workload, []).append(f"model{model}/{precision}")
    return users


def config(size: Size) -> dict[str, Any]:
    """A config of that size: phones behind a tracker, every kernel tuned."""
    targets = {
        f"phone{number}": {
            "tag": "qcom/adreno-opencl",
            "host": {"mtriple": "aarch64-linux-gnu"},
            "device": f"phone{number}",
        }
        for number in range(size.targets)
    }
    return {
        "models": {f"model{number}": {"source": f"model{number}.onnx"} for number in range(size.models)},
        "precisions": PRECISIONS,
        "targets": targets,
        "devices": {name: {"via": "rpc", "tracker": "127.0.0.1:9190", "key": name} for name in targets},
        "tuning": {"trials": 128 * KERNELS, "rounds": 1},
    }


def new_project(directory: Path, size: Size) -> None:
    """Config, sources, and what the stand-in for tvmake gives out."""
    from tvmake.artifact import stage_json
    from tvmake.artifact.tasks import Budget, KernelBudget

    directory.mkdir(parents=True)
    for number in range(size.models):
        (directory / f"model{number}.onnx").touch()
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config(size), sort_keys=False))
    given = stand_in.prepare(directory)
    for target in config(size)["targets"]:
        tuning = given / "results" / "tuning" / target / "round1"
        (tuning / "workloads").mkdir(parents=True)
        kernels = {}
        for precision in PRECISIONS:
            for workload, users in kernels_of(size.models, precision).items():
                (tuning / "workloads" / f"{workload}.json").touch()
                kernels[workload] = KernelBudget(name="fused_conv2d", trials=128, users=users)
        budget = Budget(target_name=target, number=1, kernels=kernels, trials_shared=0)
        stage_json.save(budget, tuning / "budget.json")


SNAKEMAKE = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", "tvmake.yaml"]
SUBJECTS: dict[str, tuple[str, list[str]]] = {
    "plan, nothing made": ("fresh", ["tvmake", "make", "--dry-run"]),
    "plan, nothing made, snakemake": ("fresh", ["snakemake", *SNAKEMAKE, "--cores", "2", "--dry-run"]),
    "nothing to do, no answer": ("made", ["tvmake", "make"]),
    "nothing to do": ("made", ["tvmake", "make"]),
    "nothing to do, by the records": ("made", ["tvmake", "make"]),
    "plan, one model changed": ("made", ["tvmake", "make", "--dry-run"]),
    "plan, builds changed": ("made", ["tvmake", "make", "--dry-run", "--set", "build.opt_level=2"]),
    "nothing to do, snakemake": ("made", ["snakemake", *SNAKEMAKE, "--cores", "2"]),
}
"""Commands, and the project they run in."""

CHANGED_MODEL = "model0.onnx"

EXPECTED = {
    "plan, nothing made, snakemake": "This was a dry-run",
    "nothing to do, no answer": "results:",
    "nothing to do": "results:",
    "nothing to do, by the records": "results:",
    "nothing to do, snakemake": "Nothing to be done",
}
"""What they say; the others say what would run."""

ANSWER = ".snakemake/tvmake-up-to-date.json"

PLANNED = re.compile(r"(\d+) jobs would run")


def measured(command: Sequence[str], directory: Path, log: Path) -> dict[str, float]:
    """Wall and processor seconds of one command, and the peak memory of its largest process."""
    with log.open("wb") as out:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=directory, env=environment(), stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    if status:
        sys.exit(f"{' '.join(command)} failed in {directory}:\n{log.read_text()[-4000:]}")
    return {
        "seconds": round(seconds, 2),
        "processor_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def prepared(directory: Path, size: Size) -> None:
    """The two projects of a size; those that are complete stay."""
    if (directory / "complete").exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("fresh", "made"):
        new_project(directory / name, size)
    stand_in.make(directory / "made", os.cpu_count() or 1, {})
    stand_in.add_job_records(directory / "made")
    (directory / "complete").touch()


def subject(name: str, root: Path) -> dict[str, float]:
    """Measure one command, and see that it did what it is named after."""
    project, command = SUBJECTS[name]
    directory, log = root / project, root / "log.txt"
    answer, changed = directory / ANSWER, directory / CHANGED_MODEL
    if name.endswith("no answer"):
        answer.unlink(missing_ok=True)
        time.sleep(SETTLED_S)
    elif name.startswith("nothing to do") and not name.endswith("snakemake") and not answer.is_file():
        sys.exit("there is no answer that nothing was to do")
    if name.endswith("by the records"):
        os.utime(directory / "results/summary.json")
    before = changed.read_bytes()
    if name == "plan, one model changed":
        changed.write_bytes(before + b"changed")
    try:
        found = measured(command, directory, log)
    finally:
        if changed.read_bytes() != before:
            changed.write_bytes(before)
    output = log.read_text()
    if EXPECTED.get(name, "would run") not in output or (name.startswith("nothing to do") and "✓ " in output):
        sys.exit(f"'{name}' did something else than that:\n{output[-4000:]}")
    if planned := PLANNED.search(output):
        found["planned"] = int(planned[1])
        if name == "plan, one model changed" and found["planned"] > len(jobs_of_changed_model(directory)):
            sys.exit(f"more was planned than the changed model's jobs and the report: {found['planned']}")
    return found


def jobs_of_changed_model(project: Path) -> "list[Job]":
    """What depends on the model that is changed."""
    from tvmake.config.reading.load import load
    from tvmake.engine.up_to_date.scope import jobs_of
    from tvmake.plan.plan import Plan

    with chdir(project):
        plan = Plan(load([Path("tvmake.yaml")]))
        return jobs_of(plan, [variant for variant in plan.variants if variant.model == Path(CHANGED_MODEL).stem])


def point(at: Path, jobs: int, rounds: int) -> dict[str, Any]:
    """Measure one size; the fastest of the rounds counts."""
    size = size_of(jobs)
    directory = at / str(jobs)
    began = time.perf_counter()
    prepared(directory, size)
    print(f"{size.jobs} jobs, {size.variants} variants: made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    figures: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name in SUBJECTS:
            found = subject(name, directory)
            print(f"  {name}: {found}", file=sys.stderr)
            if name not in figures or found["processor_s"] < figures[name]["processor_s"]:
                figures[name] = found
    return {"jobs": size.jobs, "variants": size.variants, "asked": jobs, "figures": figures, "where": machine()}


def run(at: Path, jobs: int, speedup: float, cores: int) -> dict[str, Any]:
    """Make a project from nothing with the stand-in, and say what a job costs."""
    size = size_of(jobs)
    directory = at / f"run-{jobs}"
    shutil.rmtree(directory, ignore_errors=True)
    new_project(directory, size)
    times = {stage: seconds / speedup for stage, seconds in SECONDS.items()} if speedup else {}
    made, seconds, usage = stand_in.make(directory, cores, times)
    if made < size.jobs - 1:
        sys.exit(f"{made} of {size.jobs - 1} jobs made")
    processor = usage.ru_utime + usage.ru_stime
    return {
        "jobs": made, "asked": jobs, "cores": cores, "speedup": speedup, "seconds": round(seconds, 2),
        "ms_a_job": round(1000 * seconds / made, 1), "processor_ms_a_job": round(1000 * processor / made, 1),
        "peak_mb": round(usage.ru_maxrss / 1024), "where": machine(),
    }  # fmt: skip


def kept_figures(file: Path) -> dict[int, dict[str, Any]]:
    """What was measured before, by the size that was asked for; the last measurement of a size counts."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {one["asked"]: one for one in map(json.loads, lines)}


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["plan", "run"], default="plan")
    parser.add_argument("--jobs", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--speedup", type=float, default=0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--at", type=Path, default=Path("scale"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--again", action="store_true", help="measure sizes that were measured before too")
    arguments = parser.parse_args()
    arguments.at.mkdir(parents=True, exist_ok=True)
    at = arguments.at.resolve()
    points, runs = kept_figures(at / "points.jsonl"), kept_figures(at / "runs.jsonl")
    if arguments.what == "run":
        measured_before, file, sizes = runs, at / "runs.jsonl", arguments.jobs or [300]
    else:
        measured_before, file, sizes = points, at / "points.jsonl", arguments.jobs or [100, 1000, 10_000, 50_000]
    for jobs in sizes:
        if jobs in measured_before and not arguments.again:
            continue
        if arguments.what == "run":
            found = run(at, jobs, arguments.speedup, arguments.cores)
        else:
            found = point(at, jobs, arguments.rounds)
        measured_before[jobs] = found
        with file.open("a") as kept:
            print(json.dumps(found), file=kept)
    ordered, scheduled = ([found[jobs] for jobs in sorted(found)] for found in (points, runs))
    if ordered:
        show(ordered)
    print(*map(json.dumps, [*ordered, *scheduled]), sep="\n")
    if arguments.plot:
        plot(ordered, scheduled, arguments.plot)


if __name__ == "__main__":
    main()
