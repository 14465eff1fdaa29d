"""Inputs of the stages that gather all variants' results: select and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.config.requests.reporting import PackageEntry, ReportRequest, VariantRow
from tvmake.stages.descriptor import Input

if TYPE_CHECKING:
    from tvmake.report.results import PathOf
    from tvmake.stages.context import JobContext


def path_in(results: str) -> PathOf:
    """A function that returns paths of variants' artifacts in a results directory."""
    from tvmake.stages import registry

    def path_of(artifact: str, row: VariantRow | PackageEntry) -> str:
        name = "group" if isinstance(row, PackageEntry) else "model"
        return registry.path(artifact, results, precision=row.precision, target=row.target, **{name: row.model})

    return path_of


def gathering_request(job: JobContext) -> ReportRequest:
    """The variants, and the artifacts of each."""
    rows = [
        VariantRow(
            model=variant.model,
            precision=variant.precision,
            target=variant.target,
            device=variant.device_name,
            is_tuned=variant.is_tuned,
            is_calibrated=variant.precision_config.is_calibrated,
            is_precision_chosen=variant.chooses_precision,
            compares_operators=variant.validation.operators,
            layout=variant.layout_choice,
            goals=variant.goals.performance,
        )
        for variant in job.variants
    ]
    packages = {
        (variant.group, variant.precision, variant.target): [function.model for function in variant.functions.values()]
        for variant in job.variants
        if variant.functions
    }
    entries = [
        PackageEntry(model=model, precision=precision, target=target, functions=functions)
        for (model, precision, target), functions in packages.items()
    ]
    return ReportRequest(results=job.config.results, variants=rows, packages=entries)


def _input(artifact: str) -> Input:
    """An artifact of every variant that has it."""

    def files(job: JobContext) -> list[str]:
        from tvmake.stages import registry

        return registry.files_of_variants(artifact, job.variants)

    return Input(artifact, files=files)


FIGURES = ("best", "calibration", "layout", "precision", "numerics", "latency", "operator_errors")
"""Results of a package that its manifest does not contain."""

OF_VARIANT = ("package.tar", "mod.json", "source.json", *(f"{name}.json" for name in FIGURES))
"""The files that a variant's row is made from."""

OF_PACKAGE = ("joined.json",)
"""The files that the row of a package with several functions is made from."""

RESULTS = tuple(map(_input, (*OF_VARIANT, *OF_PACKAGE)))
"""The files that rows are made from."""


def files_of(inputs: Iterable[Input]) -> Callable[[Mapping[str, Any]], Iterable[Path]]:
    """A function that returns the existing files of a request's variants; for a stage's ``reads``."""
    artifacts = [name for entry in inputs for name in entry.names if name not in OF_PACKAGE]

    def files(arguments: Mapping[str, Any]) -> list[Path]:
        request: ReportRequest = arguments["request"]
        path_of = path_in(request.results)
        named = [Path(path_of(name, row)) for row in request.variants for name in artifacts]
        named += [Path(path_of(name, entry)) for entry in request.packages for name in OF_PACKAGE]
        return [path for path in named if path.is_file()]

    return files
