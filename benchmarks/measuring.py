"""Seconds per measured candidate, and agreement of the latencies, against MetaSchedule's own builder and runner.

    python benchmarks/measuring.py [--candidates 32] [--rounds 3]
    python benchmarks/measuring.py --processor [--candidates 32]

Both measure the same candidates of a 56x56 64->64 3x3 convolution with the same number, repeat and min_repeat_ms.
MetaSchedule's workers import only the intrinsics the target needs (as :mod:`tvmake.codegen.scheduling.light_intrinsics`); without
that they take 20 s more each. What is counted is the time from a batch of candidates to its last result; starting up
is reported by itself. With ``--processor``, processor seconds are counted instead, which other load on the machine
changes less: what a second batch adds to a process with all its children.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from tvmake.process.tvm_import import hide_torch_from_tvm

hide_torch_from_tvm()

import tvm
from comparing import report

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.config.tuning import TrialMeasurement
from tvmake.device.fingerprint import usable_cores
from tvmake.tune.measure.interface import Candidate
from tvmake.tune.measure.local import LocalMeasurer

OPTIONS = TrialMeasurement(number=1, repeat=3, min_repeat_ms=20)


def proposals(target: "tvm.target.Target", count: int) -> list:
    """Candidates as MetaSchedule proposes them at random."""
    from tvm import te, topi
    from tvm.s_tir import meta_schedule as ms

    x = te.placeholder((1, 64, 56, 56), name="x")
    weight = te.placeholder((64, 64, 3, 3), name="weight")
    kernel = te.create_prim_func([x, weight, topi.nn.relu(topi.nn.conv2d_nchw(x, weight, 1, 1, 1))])
    context = ms.TuneContext(
        tvm.IRModule({"main": kernel.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)}),
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    context.pre_tuning(max_trials=count, num_trials_per_iter=count, design_spaces=context.generate_design_space())
    return list(context.generate_measure_candidates())


class Ours:
    """tvmake's measurer."""

    def __init__(self, target: "tvm.target.Target"):
        self.measurer = LocalMeasurer(target, OPTIONS, usable_cores(), "benchmark", usable_cores())

    def measure(self, candidates: Sequence) -> list[tuple[float, ...]]:
        """Samples in seconds, by candidate."""
        asked = [
            Candidate(number, candidate.sch.mod, list(candidate.args_info))
            for number, candidate in enumerate(candidates)
        ]
        got = {measured.number: measured for measured in self.measurer.measure(asked)}
        for measured in got.values():
            if measured.error:
                sys.exit(f"candidate {measured.number}: {measured.error}")
        return [got[number].samples_s for number in range(len(asked))]


def prepare_worker() -> None:
    """In MetaSchedule's workers."""
    import tvm

    from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics

    light_intrinsics(tvm.target.Target("llvm"))


class Theirs:
    """MetaSchedule's builder and runner, in the order in which its tuning calls them."""

    def __init__(self, target: "tvm.target.Target"):
        from tvm.s_tir import meta_schedule as ms

        self.ms = ms
        self.target = target
        self.builder = ms.builder.LocalBuilder(
            max_workers=usable_cores(), timeout_sec=OPTIONS.build_timeout_s, initializer=prepare_worker
        )
        loop = ms.runner.EvaluatorConfig(
            number=OPTIONS.number, repeat=OPTIONS.repeat, min_repeat_ms=int(OPTIONS.min_repeat_ms)
        )
        self.runner = ms.runner.LocalRunner(timeout_sec=OPTIONS.timeout_s, evaluator_config=loop)

    def measure(self, candidates: Sequence) -> list[tuple[float, ...]]:
        """Samples in seconds, by candidate."""
        ms = self.ms
        built = self.builder.build(
            [ms.builder.BuilderInput(candidate.sch.mod, self.target) for candidate in candidates]
        )
        asked = [
            ms.runner.RunnerInput(library.artifact_path, "cpu", one.args_info)
            for library, one in zip(built, candidates, strict=True)
        ]
        results = [future.result() for future in self.runner.run(asked)]
        for result in results:
            if result.error_msg:
                sys.exit(result.error_msg)
        return [tuple(float(sample) for sample in result.run_secs) for result in results]


SUBJECTS = {"MetaSchedule": Theirs, "tvmake": Ours}


def prepared(count: int) -> tuple["tvm.target.Target", list]:
    """This machine as a target, and candidates for it."""
    # As MetaSchedule counts threads by itself, both are given all cores.
    os.environ["TVM_NUM_THREADS"] = str(usable_cores())
    target = tvm.target.Target(
        {"kind": "llvm", "mcpu": str(tvm.target.codegen.llvm_get_system_cpu()), "num-cores": usable_cores()}
    )
    light_intrinsics(target)
    return target, proposals(target, count)


def measure_batches(name: str, count: int, batches: int) -> None:
    """One subject's work, for counting its processor time from outside."""
    target, candidates = prepared(count)
    subject = SUBJECTS[name](target)
    for _ in range(batches):
        subject.measure(candidates)
    if isinstance(subject, Ours):
        subject.measurer.close()


def processor_s(name: str, count: int, batches: int) -> float:
    """Processor seconds of a process that measures some batches."""
    command = [sys.executable, __file__, "--only", name, "--candidates", str(count), "--batches", str(batches)]
    process = os.posix_spawn(sys.executable, command, os.environ)
    _, status, usage = os.wait4(process, 0)
    if status:
        sys.exit(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def compare_processor_time(count: int, rounds: int) -> None:
    """Count alternately and report."""
    figures: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    for _ in range(rounds):
        for name in SUBJECTS:
            figures[name].append((processor_s(name, count, 2) - processor_s(name, count, 1)) / count)
    report(f"processor seconds per candidate of {count}", figures, "MetaSchedule")


def main(count: int, rounds: int) -> None:
    """Measure alternately and report."""
    target, candidates = prepared(count)
    subjects, starting = {}, {}
    for name, kind in SUBJECTS.items():
        began = time.perf_counter()
        subjects[name] = kind(target)
        subjects[name].measure(candidates[:1])
        starting[name] = time.perf_counter() - began
    figures: dict[str, list[float]] = {name: [] for name in subjects}
    best: dict[str, list[float]] = {name: [float("inf")] * count for name in subjects}
    for number in range(rounds):
        for name, subject in subjects.items():
            began = time.perf_counter()
            samples = subject.measure(candidates)
            figures[name].append((time.perf_counter() - began) / count)
            best[name] = [min(known, *now) for known, now in zip(best[name], samples, strict=True)]
            print(f"round {number + 1}/{rounds}: {name} {figures[name][-1]:.3f} s per candidate", file=sys.stderr)
    subjects["tvmake"].measurer.close()
    for name, seconds in starting.items():
        print(f"starting and a first candidate: {name} {seconds:.1f} s")
    report(f"seconds per candidate of {count}", figures, "MetaSchedule")
    ratios = sorted(ours / theirs for ours, theirs in zip(best["tvmake"], best["MetaSchedule"], strict=True))
    print(
        f"latency ours/theirs (best of all samples of a candidate): median {statistics.median(ratios):.3f}, "
        f"quartiles {ratios[count // 4]:.3f} and {ratios[count * 3 // 4]:.3f}, range {ratios[0]:.3f} to {ratios[-1]:.3f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--only", choices=sorted(SUBJECTS))
    parser.add_argument("--batches", type=int, default=1)
    asked = parser.parse_args()
    os.environ.setdefault("TVMAKE_HOME", tempfile.mkdtemp())
    if asked.only:
        measure_batches(asked.only, asked.candidates, asked.batches)
    elif asked.processor:
        compare_processor_time(asked.candidates, asked.rounds)
    else:
        main(asked.candidates, asked.rounds)
