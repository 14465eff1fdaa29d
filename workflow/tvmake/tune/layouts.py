"""Which data layout is fastest, judged by the kernels that do most of the work."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from tvmake.artifact.tasks import Task
from tvmake.storage.documents import FailsFast
from tvmake.transform.options import Layout

SHARE = 2 / 3
"""Of a network's operations, how much the kernels that are measured do: with those of a few kinds of convolution, the
rest is much like them."""

MAX_KERNELS = 5
"""Kernels of a layout to measure, whatever they cover."""


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class MeasuredKernel(_File):
    """A kernel that stands for its layout."""

    workload: str
    name: str
    calls: int
    flops: float
    trials: int
    """Candidates that ``latency_ms`` is the best of."""
    latency_ms: float

    def called(self, calls: int) -> "MeasuredKernel":
        """The same kernel in a network that calls it so often."""
        return self.model_copy(update={"calls": calls})


class LayoutEstimate(_File):
    """How fast a network would be in one layout."""

    layout: Layout
    estimate_ms: float | None
    """Of all kernels; None where ``problem`` says why there is none."""
    share: float
    """Of the layout's operations, how much the kernels below do."""
    kernels: list[MeasuredKernel] = []
    problem: str | None = None


class LayoutChoice(_File):
    """layout.json: which data layout a variant has, and why."""

    schema_version: int = 1
    layout: Layout
    trials: int
    """Candidates measured for each kernel."""
    estimates: list[LayoutEstimate]
    """In the order the layouts were given; empty where nothing had to be measured."""
    because: str = "all layouts come to the same network"
    """Why nothing had to be measured."""

    @property
    def summary(self) -> str:
        """The choice in one line: ``NHWC, 0.31 ms against 0.44 ms NCHW``."""
        if not self.estimates:
            return f"{self.layout}, {self.because}"
        (chosen,) = (one for one in self.estimates if one.layout == self.layout)
        others = [one for one in self.estimates if one.layout != self.layout]
        times = [f"{one.estimate_ms:.3g} ms {one.layout}" for one in others if one.estimate_ms is not None]
        text: str = self.layout
        if chosen.estimate_ms is not None:
            text += f", {chosen.estimate_ms:.3g} ms"
        if times:
            text += f" against {', '.join(times)}"
        return text + "".join(f"; {one.layout}: {one.problem}" for one in others if one.problem)


def representative_kernels(kernels: Mapping[Layout, Sequence[Task]]) -> dict[Layout, list[Task]]:
    """The kernels that stand for each layout: the heaviest, and those that only bring data into that layout.

    Args:
        kernels: of each layout, the heaviest first.
    """
    everywhere = set.intersection(*({task.workload for task in tasks} for tasks in kernels.values()))
    return {
        layout: _heaviest(tasks) + [task for task in _moves(tasks) if task.workload not in everywhere][:MAX_KERNELS]
        for layout, tasks in kernels.items()
    }


def estimate(layout: Layout, tasks: Sequence[Task], measured: Sequence[MeasuredKernel]) -> LayoutEstimate:
    """The time of a layout: of its heaviest kernels, as a share of the work they do, and of those that move data.

    Args:
        tasks: all kernels of the layout.
        measured: those of them that were measured.
    """
    tunable = [task for task in tasks if task.trivial is None]
    total = sum(task.calls * task.flops for task in tunable)
    covered = sum(one.calls * one.flops for one in measured)
    if not covered:
        return LayoutEstimate(
            layout=layout, estimate_ms=None, share=0, kernels=list(measured), problem="it has no kernels worth tuning"
        )
    computing = sum(one.calls * one.latency_ms for one in measured if one.flops)
    moving = sum(one.calls * one.latency_ms for one in measured if not one.flops)
    return LayoutEstimate(
        layout=layout,
        estimate_ms=computing * total / covered + moving,
        share=round(covered / total, 4),
        kernels=list(measured),
    )


def fastest(estimates: Sequence[LayoutEstimate]) -> Layout:
    """The layout with the smallest estimate; the first where none has one."""
    known = [one for one in estimates if one.estimate_ms is not None]
    return min(known, key=lambda one: one.estimate_ms or 0.0).layout if known else estimates[0].layout


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
