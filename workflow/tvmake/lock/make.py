"""From a finished run to its lock."""

import json
from pathlib import Path

from tvmake import __version__
from tvmake.artifact import stage_json
from tvmake.artifact.package import read_manifest
from tvmake.benchmark.precision_choice import PrecisionChoice
from tvmake.errors import InputError
from tvmake.lock.artifacts import hermetic_files, lock_file
from tvmake.lock.document import Lock
from tvmake.lock.origins import origins
from tvmake.plan.plan import Plan, Variant
from tvmake.records.best import BestSet
from tvmake.records.frozen import LockedKernel, LockedRecords
from tvmake.transform.options import Layout
from tvmake.tune.layouts import LayoutChoice


def lock_run(plan: Plan) -> Lock:
    """Everything that determined a finished run, and its results.

    Raises:
        InputError: a file is not built yet, missing or damaged.
    """
    results = Path(plan.config.results)
    artifacts = [lock_file(file, results) for file in hermetic_files(plan)]
    present = origins(plan)
    missing = [name for name, digest in present.inputs.items() if digest is None]
    if missing:
        raise InputError(missing[0], "is missing, so the run cannot be repeated", "put it back, or leave it out")
    tuned = [variant for variant in plan.variants if plan.context(variant).is_tuned]
    return Lock(
        # The linkers of the packages, not today's: a newer compiler makes no file out of date.
        origins=present.model_copy(update={"compilers": present.compilers | _linker_versions(plan)}),
        written_by=f"tvmake {__version__}",
        records={str(variant): _records(Path(plan.file("best.json", variant))) for variant in tuned},
        layouts={
            str(variant): _layout(plan, variant) for variant in plan.variants if plan.context(variant).chooses_layout
        },
        assignments={
            str(variant): stage_json.load(PrecisionChoice, Path(plan.file("precision.json", variant))).assignment
            for variant in plan.variants
            if plan.context(variant).chooses_precision
        },
        artifacts=artifacts,
    )


def _linker_versions(plan: Plan) -> dict[str, str]:
    linkers = {}
    for variant in plan.variants:
        file = Path(plan.file("mod.json", variant))
        components = read_manifest(file.read_bytes(), str(file)).components
        linkers[variant.target] = next(part.version for part in components if part.name == "linker")
    return linkers


def _records(best: Path) -> LockedRecords:
    best_set = stage_json.load(BestSet, best)
    return LockedRecords(
        generation=best_set.generation,
        target=json.loads(best_set.target),
        device_class=best_set.device_class,
        kernels=tuple(
            LockedKernel(
                name=kernel.name,
                workload=kernel.workload,
                record=kernel.record.digest if kernel.record else None,
                latency_ms=kernel.latency_ms,
                trials=kernel.trials,
                curve=kernel.curve,
                reason=kernel.reason,
            )
            for kernel in best_set.kernels
        ),
    )


def _layout(plan: Plan, variant: Variant) -> Layout:
    return stage_json.load(LayoutChoice, Path(plan.file("layout.json", variant))).layout
