"""Finished runs, written file by file through the stages' own models."""

import shutil
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tvmake.artifact import stage_json
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Component, Coverage, FileEntry, GraphNode, Manifest, Unscheduled
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.benchmark.ops import KernelCall, kernel_table
from tvmake.benchmark.result import Latency, latency_report
from tvmake.config.benchmark import Measurement
from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.config.validation import Goals
from tvmake.records.best import BestKernel, BestSet
from tvmake.report.cache_use import cache_use
from tvmake.report.history import DIRECTORY, keep_summary
from tvmake.report.load import load_summary
from tvmake.report.results import read_results
from tvmake.report.rows import Summary, summarise
from tvmake.stages import registry
from tvmake.stages.results.gathering import path_in
from tvmake.stages.results.report import report
from tvmake.stages.results.select import select
from tvmake.storage.files import digest_file
from tvmake.validate.numerics import Comparison
from tvmake.validate.result import Numerics

STEADY = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0]


def gather(request: ReportRequest, chosen: Collection[str] = ()) -> Summary:
    """What a report of these variants says, where ``chosen`` are the best of their models."""
    return summarise(
        read_results(request, path_in(request.results)), cache_use(request.variants, Path("logs")), chosen=chosen
    )


class Run:
    """A results directory that grows by one variant at a time."""

    def __init__(self, root: Path):
        self.results = root / "results"
        self.variants: list[VariantRow] = []

    def add(
        self,
        model="digits",
        precision="float32",
        target="cpu",
        device="local",
        *,
        error=0.0,
        goals=None,
        labelled=True,
        output="logits",
        samples_ms=STEADY,
        percentile="p50",
        kernels=(),
        tuned=0,
        tunable=4,
        soc="Test SoC",
        kind="cpu",
        weights=b"weights",
        curve=(),
        kernel_name="fused_conv2d",
        calibration=None,
        unscheduled=None,
    ):
        """Write one variant's files.

        Args:
            error: what the package's outputs are off by, relative.
            curve: trials and latencies of the search for its one kernel that was tuned.
        """
        variant = VariantRow(
            model=model,
            precision=precision,
            target=target,
            device=device,
            is_tuned=bool(curve),
            is_calibrated=calibration is not None,
        )
        self.variants.append(variant)
        self._write_package(variant, output, tuned, tunable, weights, unscheduled, [name for name, _ in kernels])
        if calibration is not None:
            stage_json.save(calibration, self.path(variant, "calibration.json"))
        if curve:
            kernel = BestKernel(
                workload="0" * 64, name=kernel_name, calls=1, flops=1e9, trials=8, curve=curve, latency_ms=curve[-1][1]
            )
            best = BestSet(target="{}", generation="tvm-0.27", device_class="cpu", kernels=(kernel,))
            stage_json.save(best, self.path(variant, "best.json"))
        if device:
            digest = digest_file(self.path(variant, "package.tar"))
            fingerprint = Fingerprint(
                kind=kind, soc=soc, cores=2, memory_bytes=8 << 30, os="Linux 6", runtime="tvm 0.27"
            )
            written = Numerics(
                report=_numerics(error, goals or Goals(rtol=1e-4, atol=1e-5), output, labelled),
                reference="onnxruntime 1.31",
                data="dataset" if labelled else "random",
                package_sha256=digest,
                fingerprint=fingerprint,
            )
            stage_json.save(written, self.path(variant, "numerics.json"))
            timed = latency_report(
                Measurement(percentile=percentile),
                samples_ms,
                load_ms=3.5,
                first_run_ms=2.5,
                peak_memory_bytes=50_000_000,
                ops=kernel_table(KernelCall(kernel=name, duration_ms=ms) for name, ms in kernels),
                conditions={"load_average_1m": 0.5},
            )
            latency = Latency(
                report=timed, package_sha256=digest, baseline_memory_bytes=20_000_000, fingerprint=fingerprint
            )
            stage_json.save(latency, self.path(variant, "latency.json"))
        return variant

    def path(self, variant: VariantRow, artifact: str) -> Path:
        wildcards = variant.model_dump(include={"model", "precision", "target"})
        return Path(registry.path(artifact, str(self.results), **wildcards))

    def file(self, artifact: str) -> Path:
        return Path(registry.path(artifact, str(self.results)))

    def remove(self) -> None:
        """Delete every variant's files; what is known of earlier runs stays."""
        for directory in self.results.glob("*"):
            if directory.is_dir() and directory.name != DIRECTORY:
                shutil.rmtree(directory)

    def age_history(self) -> None:
        """Make what is kept of earlier runs a day older: its times have seconds."""
        for file in sorted((self.results / DIRECTORY).glob("*.json")):
            run = load_summary(file)
            at = datetime.fromisoformat(run.created_at) - timedelta(days=1)
            file.unlink()
            keep_summary(run.model_copy(update={"created_at": at.isoformat()}), self.results)

    @property
    def request(self) -> ReportRequest:
        return ReportRequest(results=str(self.results), variants=self.variants)

    def report(self) -> Summary:
        select(self.request, self.file("selection.json"), self.file("best"))
        files = (self.file("summary.json"), self.file("summary.csv"), self.file("index.html"))
        return report(self.request, self.file("selection.json"), *files)

    def _write_package(
        self,
        variant: VariantRow,
        output: str,
        tuned: int,
        tunable: int,
        weights: bytes,
        unscheduled: Unscheduled | None = None,
        graph: Sequence[str] = (),
    ):
        library = self.path(variant, "mod.so")
        files = {LIBRARY: library, WEIGHTS: library.with_name(WEIGHTS)}
        files[LIBRARY].parent.mkdir(parents=True)
        files[LIBRARY].write_bytes(f"library of {variant}".encode())
        files[WEIGHTS].write_bytes(weights)
        names = [f"kernel_{number}" for number in range(tunable)]
        manifest = Manifest(
            model=variant.model,
            precision=variant.precision,
            target_name=variant.target,
            network={"module.json": "1" * 64},
            signature=Signature(
                inputs=(TensorSpec(name="x", relax_name="x", shape=(1, 8), dtype="float32"),),
                outputs=(TensorSpec(name=output, relax_name="y", shape=(1, 10), dtype="float32"),),
            ),
            parameters=[],
            target={"kind": "llvm"},
            build={},
            libinfo={},
            records_sha256="0" * 64 if tuned else None,
            coverage=Coverage(
                tuned=tuned,
                tunable=tunable,
                time_share=tuned / tunable if tunable else 1,
                misses=dict.fromkeys(names[tuned:], "it was not tuned"),
            ),
            unscheduled=unscheduled,
            kernels=[],
            graph=[
                GraphNode(
                    name=f"lv{number}",
                    call=kernel,
                    inputs=[f"lv{number - 1}"] if number else ["x"],
                    shape=[1, 8],
                    dtype="float32",
                )
                for number, kernel in enumerate(graph)
            ],
            files={name: FileEntry(sha256=digest_file(file), size=file.stat().st_size) for name, file in files.items()},
            components=[Component(name="apache-tvm", version="0.27.0.post1")],
        ).sealed()
        stage_json.save(manifest, self.path(variant, "mod.json"))
        pack({**files, MANIFEST: self.path(variant, "mod.json")}, self.path(variant, "package.tar"))


def _numerics(error: float, goals: Goals, output: str, labelled: bool):
    random = np.random.RandomState(0)
    comparison = Comparison(goals)
    for _ in range(20):
        reference = random.randn(1, 10).astype("float32")
        labels = reference.argmax(axis=1) if labelled else None
        got = reference + error * random.randn(1, 10).astype("float32")
        comparison.add({output: reference}, {output: got}, labels)
    return comparison.report()


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def another_run(tmp_path):
    return Run(tmp_path / "another")
