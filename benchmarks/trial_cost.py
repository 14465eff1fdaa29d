"""Time of a measured trial, and the latency after a budget of trials, against TVM's own ``tune_tasks``.

    python benchmarks/trial_cost.py                                  (some 15 minutes on two idle cores)
    python benchmarks/trial_cost.py zoo:resnet18 --trials 1280       (an hour)

Both tune the same kernels, from nothing, with empty stores, to the same total number of trials, and time a candidate
with the same ``number``, ``repeat`` and ``min_repeat_ms``. Both may use all cores. They take turns.

tvmake runs as a user runs it: ``tvmake make … best.json`` after the network was imported and its kernels were extracted.
What is counted is the whole command: Snakemake, every job's start, the check of the winners' outputs.

TVM runs in a process of its own: ``extracted_tasks_to_tune_contexts`` and ``tune_tasks``, which is all that
``tune_relax`` does once it has extracted the tasks. It gets the kernels that tvmake extracted, without those that
tvmake does not tune because nothing could be gained. Everything is as TVM ships it (64 candidates a round, population
512, XGBoost, the gradient scheduler, one import of all tensor intrinsics per process) except:

- the builder's timeout is 600 s instead of 30. A builder's first candidate waits for ``tvm.s_tir.tensor_intrin``, whose
  import takes about 30 s, so that with TVM's default every candidate of a round may fail;
- the measuring options named above, which are tvmake's defaults (TVM's are 3, 1 and 100).

TVM's scheduler gives every kernel a round before it comes back to one, so that with fewer than 64 trials a kernel some
would get none; ``--batch`` changes its round. The default network, ResNet-18 up to its first stage, has few kernels.

In the end the best candidates of both are built and timed again, side by side in one process, several times, interleaved;
the quality is the sum of calls × latency over the kernels.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from comparing import environment, machine

from tvmake.process.tvm_import import hide_torch_from_tvm

STAGE = "resnet18-stage1"
"""The default network."""

MODEL = "network"
BUILDER_TIMEOUT_S = 600.0
BEST = f"results/{MODEL}/float32/cpu/best.json"
TASKS = f"results/{MODEL}/float32/cpu/tasks.json"
WORKLOADS = f"results/{MODEL}/float32/cpu/workloads"

AGAIN = {"number": 1, "repeat": 5, "min_repeat_ms": 50}
"""How winners are timed in the end, :data:`TURNS` times."""

TURNS = 3


@dataclass(frozen=True)
class Spent:
    """What one side's tuning took."""

    wall_s: float
    processor_s: float
    trials: int
    failed: int


def save_stage(path: Path) -> None:
    """Export ResNet-18 up to the end of its first stage, with a classifier behind it."""
    import torch

    from tvmake.frontend.zoo.networks import resnet

    torch.manual_seed(0)
    network = resnet((2, 0, 0, 0), False, 1000).eval()
    torch.export.save(torch.export.export(network, (torch.zeros(1, 3, 224, 224),)), path)


def prepare(source: str, trials: int, measure: Mapping[str, float], project: Path) -> None:
    """Import the network and extract its kernels, which costs neither side anything."""
    project.mkdir()
    if source == STAGE:
        save_stage(project / "stage.pt2")
        source = "stage.pt2"
    config = {
        "models": {MODEL: {"source": source}},
        "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
        "tuning": {"trials": trials, "measure": dict(measure)},
    }
    (project / "tvmake.yaml").write_text(yaml.safe_dump(config))
    run(["tvmake", "make", TASKS], project, {})


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of a command with all it started; one that fails ends the benchmark."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environment(**env), stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(command)} failed ({process.returncode}):\n{output.read().decode()[-4000:]}")
    return wall, usage.ru_utime + usage.ru_stime


class Ours:
    """tvmake."""

    def __init__(self, prepared: Path, directory: Path, jobs: int):
        self.project = directory / "tvmake"
        shutil.copytree(prepared, self.project)
        self.jobs = jobs

    def tune(self) -> Spent:
        """One cold run."""
        home = self.project / "home"
        command = ["tvmake", "make", "-j", str(self.jobs), BEST]
        wall, processor = run(command, self.project, {"TVMAKE_HOME": str(home)})
        lines = [json.loads(line) for path in self.project.glob("logs/**/*.events.jsonl") for line in path.open()]
        statuses = [line["status"] for line in lines if line["event"] == "trial"]
        return Spent(wall, processor, len(statuses), sum(status != "ok" for status in statuses))

    def best(self) -> dict[str, Any]:
        """The scheduled modules of the winners, by workload."""
        import tvm

        from tvmake.artifact import stage_json
        from tvmake.codegen.scheduling.replay import replay
        from tvmake.records.best import BestSet

        found = stage_json.load(BestSet, self.project / BEST).by_workload()
        return {
            key: tvm.IRModule({"main": replay(workload, found[key].record.trace)})
            for key, workload in workloads(self.project)
            if found[key].record is not None
        }


class Theirs:
    """TVM's own tuning."""

    def __init__(self, prepared: Path, directory: Path, trials: int, batch: int, measure: Mapping[str, float]):
        self.project = prepared
        self.directory = directory / "tvm"
        self.directory.mkdir()
        kernels = {task["workload"]: task["calls"] for task in tasks(prepared)}
        self.asked = {
            "target": json.loads((prepared / TASKS).read_text())["target"],
            "directory": str(self.directory),
            "kernels": {str(prepared / WORKLOADS / f"{key}.json"): calls for key, calls in kernels.items()},
            "trials": trials,
            "batch": batch,
            "measure": dict(measure),
        }

    def tune(self) -> Spent:
        """One cold run."""
        command = [sys.executable, __file__, "--serve", json.dumps(self.asked)]
        wall, processor = run(command, self.directory, {})
        lines = (self.directory / "database_tuning_record.json").read_text().splitlines()
        failed = sum(min(json.loads(line)[1][1]) >= 1e9 for line in lines)
        return Spent(wall, processor, len(lines), failed)

    def best(self) -> dict[str, Any]:
        """The scheduled modules of the winners, by workload."""
        from tvm.s_tir import meta_schedule as ms

        database = ms.database.JSONDatabase(work_dir=str(self.directory))
        found = {}
        for key, workload in workloads(self.project):
            for record in database.get_top_k(database.commit_workload(workload.module), 1):
                if min(float(second) for second in record.run_secs) < 1e9:
                    found[key] = record.as_measure_candidate().sch.mod
        return found


def serve(asked: Mapping[str, Any]) -> None:
    """The process that TVM tunes in; it knows nothing of tvmake."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target({**json.loads(asked["target"]), "num-cores": os.cpu_count()})
    extracted = []
    for number, (path, calls) in enumerate(asked["kernels"].items()):
        module = tvm.ir.load_json(Path(path).read_text())
        extracted.append(ms.ExtractedTask(f"kernel{number}", module, target, [module], calls))
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(extracted, asked["directory"])
    loop = ms.runner.EvaluatorConfig(**asked["measure"])
    ms.tune_tasks(
        tasks=contexts,
        task_weights=weights,
        work_dir=asked["directory"],
        max_trials_global=asked["trials"],
        num_trials_per_iter=asked["batch"],
        builder=ms.builder.LocalBuilder(timeout_sec=BUILDER_TIMEOUT_S),
        runner=ms.runner.LocalRunner(evaluator_config=loop),
    )


def tasks(project: Path) -> list[dict[str, Any]]:
    """The kernels that are tuned."""
    return [task for task in json.loads((project / TASKS).read_text())["tasks"] if task["trivial"] is None]


def workloads(project: Path) -> Iterator[tuple[str, Any]]:
    """The kernels themselves, by their identity."""
    import tvm

    from tvmake.artifact.module_files import load_module
    from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
    from tvmake.records.workload import workload

    target = tvm.target.Target(json.loads(json.loads((project / TASKS).read_text())["target"]))
    light_intrinsics(target)
    for task in tasks(project):
        path = project / WORKLOADS / f"{task['workload']}.json"
        yield task["workload"], workload(load_module(path)["main"], target)


def timed_again(project: Path, winners: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Latencies in ms of both sides' winners by side and workload: medians of all interleaved samples."""
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    from tvmake.config.tuning import TrialMeasurement
    from tvmake.tune.measure.interface import Candidate
    from tvmake.tune.measure.local import LocalMeasurer

    target = next(iter(workloads(project)))[1].target
    measurer = LocalMeasurer(target, TrialMeasurement(**AGAIN), 1, "benchmark")
    asked = [(key, side) for key in winners["tvmake"] for side in winners if key in winners[side]]
    samples: dict[tuple[str, str], list[float]] = {one: [] for one in asked}
    for _ in range(TURNS):
        for key, side in asked:
            module = winners[side][key]
            (measured,) = measurer.measure([Candidate(0, module, list(ArgInfo.from_entry_func(module, True)))])
            if measured.error:
                sys.exit(f"the best of {side} for {key[:12]}: {measured.error}")
            samples[key, side] += measured.samples_s
    measurer.close()
    return {
        side: {key: statistics.median(samples[key, side]) * 1000 for key in winners[side] if (key, side) in samples}
        for side in winners
    }


def quality(project: Path, winners: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Print the kernels; returns milliseconds of one pass through the network by side, where both have a winner."""
    latencies = timed_again(project, winners)
    totals = dict.fromkeys(latencies, 0.0)
    print(f"  {'best latency in ms':<40} calls {'TVM':>10} {'tvmake':>10}")
    for task in tasks(project):
        key = task["workload"]
        both = {side: known.get(key) for side, known in latencies.items()}
        shown = " ".join(f"{'none' if ms is None else f'{ms:.4f}':>10}" for ms in both.values())
        print(f"  {task['names'][0]:<40} {task['calls']:5} {shown}")
        if None not in both.values():
            for side, ms in both.items():
                totals[side] += task["calls"] * ms
    missing = len(tasks(project)) - len(set(latencies["TVM"]) & set(latencies["tvmake"]))
    note = f" (without {missing} that one side has no result for)" if missing else ""
    print(f"  {'calls × latency, all kernels' + note:<40}       {totals['TVM']:10.3f} {totals['tvmake']:10.3f}")
    return totals


def main() -> None:
    """See the module's docstring."""
    hide_torch_from_tvm()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", default=STAGE, help=f"zoo:<network>, a model file, or {STAGE}")
    parser.add_argument("--trials", type=int, default=384, help="in total, for each side [384]")
    parser.add_argument("--batch", type=int, default=64, help="candidates in a round of TVM's [64, as TVM has it]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="for tvmake make -j [all cores]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--min-repeat-ms", type=int, default=20)
    parser.add_argument("--only", choices=["TVM", "tvmake"], help="run one side, and compare nothing")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(json.loads(given.serve))
    measure = {"number": given.number, "repeat": given.repeat, "min_repeat_ms": given.min_repeat_ms}
    spent: dict[str, list[Spent]] = {"TVM": [], "tvmake": []}
    totals = []
    print(f"{given.source}, {given.trials} trials ({machine()})")
    with tempfile.TemporaryDirectory() as directory:
        prepared = Path(directory) / "prepared"
        prepare(given.source, given.trials, measure, prepared)
        for number in range(given.rounds):
            root = Path(directory) / str(number)
            root.mkdir()
            sides = {
                "TVM": Theirs(prepared, root, given.trials, given.batch, measure),
                "tvmake": Ours(prepared, root, given.jobs),
            }
            for name in [given.only] if given.only else sides:
                spent[name].append(one := sides[name].tune())
                print(
                    f"  round {number + 1}: {name:<7} {one.wall_s:7.1f} s, {one.processor_s:7.1f} s of processor time, "
                    f"{one.trials} trials ({one.failed} failed): {one.wall_s / one.trials:.3f} s a trial, "
                    f"{one.processor_s / one.trials:.3f} s of processor time",
                    flush=True,
                )
            if not given.only:
                totals.append(quality(prepared, {name: side.best() for name, side in sides.items()}))
    if totals:
        conclude(given, spent, totals)
    return None


def conclude(given: argparse.Namespace, spent: Mapping[str, list[Spent]], totals: list[dict[str, float]]) -> None:
    """The ratios; then everything as one JSON line."""
    cost = {name: statistics.median(one.wall_s / one.trials for one in runs) for name, runs in spent.items()}
    reached = {name: statistics.median(total[name] for total in totals) for name in spent}
    print(
        f"seconds a trial: TVM {cost['TVM']:.3f}, tvmake {cost['tvmake']:.3f}: {cost['TVM'] / cost['tvmake']:.2f} × fewer"
    )
    print(
        f"result: TVM {reached['TVM']:.3f} ms, tvmake {reached['tvmake']:.3f} ms: {reached['tvmake'] / reached['TVM']:.2f} ×"
    )
    runs = {name: [vars(one) for one in every] for name, every in spent.items()}
    print(json.dumps({"asked": vars(given), "spent": runs, "calls_x_latency_ms": totals, "where": machine()}))


if __name__ == "__main__":
    main()
