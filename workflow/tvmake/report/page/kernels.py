"""The tuning curves of a variant's kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tvmake.records.best import BestKernel
from tvmake.report import quantities
from tvmake.report.page.charts.curves import steps_svg
from tvmake.report.page.comparison import name_of
from tvmake.report.results import VariantResults

CURVES = 10
"""Kernels drawn a variant: the heaviest."""


@dataclass(frozen=True)
class Curve:
    """One kernel's search."""

    name: str
    rate: str
    gain: str
    trials: int
    svg: Markup


@dataclass(frozen=True)
class Search:
    """One variant's searches."""

    title: str
    curves: list[Curve]


def search(result: VariantResults, twin: VariantResults | None) -> Search | None:
    """The tuning curves of a variant.

    Args:
        result: the tuned variant.
        twin: the untuned variant for comparison.
    """
    kernels = kernels_to_draw(result.best.kernels) if result.best else []
    if not kernels:
        return None
    untuned = _times(twin)
    return Search(name_of(result), [_curve(kernel, untuned.get(kernel.name)) for kernel in kernels])


def kernels_to_draw(kernels: Sequence[BestKernel]) -> list[BestKernel]:
    """The kernels whose curves are drawn."""
    return [kernel for kernel in kernels if kernel.curve and kernel.flops > 0][:CURVES]


def points(kernel: BestKernel) -> list[tuple[int, float]]:
    """Trial and best rate so far in GFLOPS, from the first that worked to the last that was measured."""
    steps = [(trial, _rate(kernel, latency_ms)) for trial, latency_ms in kernel.curve]
    return [*steps, (kernel.trials, steps[-1][1])] if steps[-1][0] < kernel.trials else steps


def _times(twin: VariantResults | None) -> Mapping[str, float]:
    if twin is None or twin.latency is None:
        return {}
    return {op.kernel: op.median_ms for op in twin.latency.report.ops if op.median_ms > 0}


def _curve(kernel: BestKernel, untuned_ms: float | None) -> Curve:
    level = _rate(kernel, untuned_ms) if untuned_ms else None
    steps = points(kernel)
    best = steps[-1][1]
    first = steps[0][1]
    gain = f"{best / level:.3g} × untuned" if level else f"{best / first:.3g} × the first that worked"
    name = f"Best rate of {kernel.name} by trial: from {quantities.rate(first)} to {quantities.rate(best)} GFLOPS"
    return Curve(kernel.name, quantities.rate(best), gain, kernel.trials, steps_svg(steps, level, name))


def _rate(kernel: BestKernel, latency_ms: float) -> float:
    return kernel.flops / latency_ms / 1e6
