"""The time of a variant's kernels, and how they were scheduled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tvmake.records.best import BestKernel
from tvmake.report import quantities
from tvmake.report.page.charts.curves import steps_svg
from tvmake.report.page.charts.treemap import Cell, treemap_svg
from tvmake.report.page.comparison import name_of
from tvmake.report.results import VariantResults

CURVES = 10
"""Kernels drawn a variant: the heaviest."""
RUNTIME = "vm."
"""The prefixes of profile entries that are not kernels."""


@dataclass(frozen=True)
class KernelMap:
    """A variant's treemap; ``untuned`` describes the share of the time that tuning could improve."""

    title: str
    svg: Markup
    untuned: str


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


def kernel_map(result: VariantResults) -> KernelMap | None:
    """The treemap of a variant that was profiled."""
    if result.latency is None or not result.latency.report.ops:
        return None
    coverage = result.manifest.coverage
    scheduled = {kernel.name: kernel.scheduled for kernel in result.manifest.kernels}
    cells, runtime = [], []
    for op in result.latency.report.ops:
        about = f"{op.calls:g} × {quantities.milliseconds(op.median_ms)} ms"
        if op.kernel.startswith(RUNTIME):
            runtime.append(op)
        elif op.kernel in coverage.misses:
            cells.append(Cell(op.kernel, op.share, "untuned", f"{about}; not tuned: {coverage.misses[op.kernel]}"))
        else:
            origin = scheduled.get(op.kernel, "default")
            kind = "tuned" if origin == "record" else origin
            words = {"tuned": "tuned", "rule": "scheduled by a rule", "default": "plain loops"}[kind]
            cells.append(Cell(op.kernel, op.share, kind, f"{about}; {words}"))
    if runtime:
        share = sum(op.share for op in runtime)
        calls = ", ".join(f"{op.kernel.rpartition('.')[2]} {op.share:.1%}" for op in runtime)
        cells.append(Cell("TVM's runtime", share, "runtime", f"between kernels: {calls}"))
    cells = [cell for cell in cells if cell.share > 0]
    if not cells:
        return None
    untuned = [cell for cell in cells if cell.kind == "untuned"]
    total = sum(cell.share for cell in untuned)
    named = ", ".join(f"{cell.name} ({cell.share:.1%})" for cell in sorted(untuned, key=lambda one: -one.share)[:5])
    more = f" and {len(untuned) - 5} more" if len(untuned) > 5 else ""
    title = name_of(result)
    return KernelMap(
        title,
        treemap_svg(cells, f"Share of each kernel in a run of {title}; the table of kernels below has the figures"),
        f"{total:.1%} of the time, in {named}{more}." if untuned else "",
    )


def search(result: VariantResults, twin: VariantResults | None) -> Search | None:
    """The tuning curves of a variant.

    Args:
        result: the tuned variant.
        twin: the untuned variant for comparison.
    """
    kernels = drawn(result.best.kernels) if result.best else []
    if not kernels:
        return None
    untuned = _times(twin)
    return Search(name_of(result), [_curve(kernel, untuned.get(kernel.name)) for kernel in kernels])


def drawn(kernels: Sequence[BestKernel]) -> list[BestKernel]:
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
