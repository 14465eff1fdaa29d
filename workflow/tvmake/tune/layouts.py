"""Choose the fastest data layout, by the kernels that do most of the work."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from tvmake.artifact.tasks import Task
from tvmake.storage.documents import FailsFast
from tvmake.transform.options import Layout

SHARE = 2 / 3
"""Fraction of a network's operations in the measured kernels. The rest resembles these few kinds of convolution."""

MAX_KERNELS = 5
"""Maximum number of measured kernels of a layout."""


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class MeasuredKernel(_File):
    """A kernel that represents its layout."""

    workload: str
    name: str
    calls: int
    flops: float
    trials: int
    """Number of candidates that ``latency_ms`` is the best of."""
    latency_ms: float

    def called(self, calls: int) -> "MeasuredKernel":
        """Return the kernel for a network with a number of calls."""
        return self.model_copy(update={"calls": calls})


class LayoutEstimate(_File):
    """Estimated time of a network in one layout."""

    layout: Layout
    estimate_ms: float | None
    """Time of all kernels; None if ``problem`` is set."""
    share: float
    """Fraction of the layout's operations in ``kernels``."""
    kernels: list[MeasuredKernel] = []
    problem: str | None = None


class LayoutChoice(_File):
    """layout.json: the chosen data layout of a variant, with its reasons."""

    schema_version: int = 1
    layout: Layout
    trials: int
    """Number of candidates measured for each kernel."""
    estimates: list[LayoutEstimate]
    """Estimates in the order of the layouts; empty if no measurement was needed."""
    because: str = "all layouts come to the same network"
    """The reason why no measurement was needed."""

    @property
    def summary(self) -> str:
        """Describe the choice in one line: ``NHWC, 0.31 ms against 0.44 ms NCHW``."""
        if not self.estimates:
            return f"{self.layout}, {self.because}"
        (chosen,) = (entry for entry in self.estimates if entry.layout == self.layout)
        others = [entry for entry in self.estimates if entry.layout != self.layout]
        times = [f"{entry.estimate_ms:.3g} ms {entry.layout}" for entry in others if entry.estimate_ms is not None]
        text: str = self.layout
        if chosen.estimate_ms is not None:
            text += f", {chosen.estimate_ms:.3g} ms"
        if times:
            text += f" against {', '.join(times)}"
        return text + "".join(f"; {entry.layout}: {entry.problem}" for entry in others if entry.problem)


def representative_kernels(kernels: Mapping[Layout, Sequence[Task]]) -> dict[Layout, list[Task]]:
    """Return the kernels that represent each layout: the most expensive ones, and those that only convert data.

    Args:
        kernels: kernels of each layout, the most expensive first.
    """
    everywhere = set.intersection(*({task.workload for task in tasks} for tasks in kernels.values()))
    return {
        layout: _heaviest(tasks) + [task for task in _moves(tasks) if task.workload not in everywhere][:MAX_KERNELS]
        for layout, tasks in kernels.items()
    }


def estimate(layout: Layout, tasks: Sequence[Task], measured: Sequence[MeasuredKernel]) -> LayoutEstimate:
    """Estimate the time of a layout from its most expensive kernels, scaled by their share of the work, and its data movement."""
    tunable = [task for task in tasks if task.trivial is None]
    total = sum(task.calls * task.flops for task in tunable)
    covered = sum(kernel.calls * kernel.flops for kernel in measured)
    if not covered:
        return LayoutEstimate(
            layout=layout, estimate_ms=None, share=0, kernels=list(measured), problem="it has no kernels worth tuning"
        )
    computing = sum(kernel.calls * kernel.latency_ms for kernel in measured if kernel.flops)
    moving = sum(kernel.calls * kernel.latency_ms for kernel in measured if not kernel.flops)
    return LayoutEstimate(
        layout=layout,
        estimate_ms=computing * total / covered + moving,
        share=round(covered / total, 4),
        kernels=list(measured),
    )


def fastest(estimates: Sequence[LayoutEstimate]) -> Layout:
    """Return the layout with the smallest estimate; the first one if there is none."""
    known = [entry for entry in estimates if entry.estimate_ms is not None]
    return min(known, key=lambda entry: entry.estimate_ms or 0.0).layout if known else estimates[0].layout


def _heaviest(tasks: Sequence[Task]) -> list[Task]:
    tunable = [task for task in tasks if task.trivial is None and task.flops]
    total = sum(task.calls * task.flops for task in tunable)
    chosen: list[Task] = []
    covered = 0.0
    for task in tunable[:MAX_KERNELS]:
        if covered >= SHARE * total:
            break
        chosen.append(task)
        covered += task.calls * task.flops
    return chosen


def _moves(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.trivial is None and not task.flops]
