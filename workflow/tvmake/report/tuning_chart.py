"""The tuning curves, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmake.records.best import BestKernel
from tvmake.report.chart import WIDTH, theme

CURVES = 10
"""Kernels drawn a variant: the heaviest."""

HEIGHT = 220


@dataclass(frozen=True)
class TuningCurves:
    """One variant's searches."""

    title: str
    kernels: Sequence[BestKernel]
    """The heaviest first."""


def tuning_svg(variants: Sequence[TuningCurves]) -> str:
    """One panel a variant, one step line a kernel: the best rate found, in GFLOPS, by trial."""
    import altair as alt
    import vl_convert

    panels = [_panel(alt, variant) for variant in variants]
    chart = alt.vconcat(*panels, spacing=24).configure(**theme()).resolve_scale(color="independent")
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=version)


def drawn(kernels: Sequence[BestKernel]) -> list[BestKernel]:
    """The kernels whose curves are drawn."""
    return [kernel for kernel in kernels if kernel.curve and kernel.flops > 0][:CURVES]


def points(kernel: BestKernel) -> list[tuple[int, float]]:
    """Trial and best rate so far in GFLOPS, from the first that worked to the last that was measured."""
    steps = [(trial, kernel.flops / latency_ms / 1e6) for trial, latency_ms in kernel.curve]
    return [*steps, (kernel.trials, steps[-1][1])] if steps[-1][0] < kernel.trials else steps


def _panel(alt: Any, variant: TuningCurves) -> Any:
    shown = drawn(variant.kernels)
    values = [
        {"kernel": kernel.name, "trial": trial, "gflops": rate} for kernel in shown for trial, rate in points(kernel)
    ]
    return (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("trial:Q", title="trials"),
            y=alt.Y("gflops:Q", title="GFLOPS"),
            color=alt.Color("kernel:N", title=None, sort=[kernel.name for kernel in shown]),
        )
        .properties(title=variant.title, width=WIDTH - 240, height=HEIGHT)
    )
